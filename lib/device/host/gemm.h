// GEMMs of prepacked weights through oneDNN. Only gemm_ladder.h includes oneDNN.
//
// oneDNN compiles code for a fixed number of rows and threads. prepare() therefore makes a ladder
// of primitives for each shape and number of threads: 1, 2, 4, 8, then multiples of 16 up to
// call_rows() rows. A range runs in chunks
// of call_rows() rows, and the rest on the first rung that holds it. This last call also reads up
// to kRowSlack rows past its range and overwrites them with garbage. The garbage is harmless,
// because ranges run in ascending order: a later range rewrites each garbage row, or the row lies
// past T, in the slack. `a` and `out` must be different buffers.
//
// Concurrent ranges (GemmMode::kConcurrent) use a ladder of single-threaded primitives and run in
// any order. A task with fewer rows than its rung computes into its thread's own memory and copies
// its rows from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "device/host/gemm_rows.h"
#include "device/host/turns.h"

namespace itif::device {

struct GemmState;  // oneDNN's objects (gemm_ladder.h), shared with the runners

class GemmLibrary {
 public:
  // `types`: as in check_host_types().
  GemmLibrary(const ComputeTypes& types, uint32_t num_threads);
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  // As in Device. Any control thread may call these while streams run.
  Result<size_t> packed_bytes(const GemmShape& shape);
  Status pack(const GemmShape& shape, std::span<const TensorView> weight, void* target);
  Result<GemmHandle> prepare(const GemmShape& shape, uint32_t max_rows);
  // Number of shapes whose primitives exist: those with a live handle.
  size_t num_prepared() const;

  // Runs the GEMMs of one stream. Holds oneDNN's stream and memory handles.
  class Runner {
   public:
    virtual ~Runner() = default;
    // If all GEMMs are concurrent, their ranges are distributed together over the threads.
    // `turns`: of the stream, which has the turn; GEMMs of many rows run in parts, so that others
    // have theirs. nullptr: the CPUs are not shared. REQUIRES: each is prepared for its shape.
    // Errors: kInternal, oneDNN's failure.
    virtual Status run(std::span<const kernels::GroupedGemm> all, TurnTaker* turns) = 0;
    Status run(std::span<const kernels::GroupedGemm> all) { return run(all, nullptr); }
  };
  // `num_threads`: of the stream; at most those of the library.
  Result<std::unique_ptr<Runner>> make_runner(uint32_t num_threads);

 private:
  std::shared_ptr<GemmState> state_;
};

// "oneDNN 2.6.3", for logs.
std::string gemm_library_name();

}  // namespace itif::device
