// GEMMs of prepacked weights through oneDNN, which only gemm.cc and gemm_runner.cc include.
//
// oneDNN compiles code for one number of rows, so each shape gets a ladder of primitives made ahead
// (`prepare`): 1, 2, 4, 8, then multiples of 16 up to kMaxRows. A range of rows runs as chunks of
// kMaxRows and then on the first rung that holds the rest. Such a call also reads and overwrites up to
// kRowSlack rows past its range with garbage. That is harmless because ranges run in ascending order:
// every garbage row is written again by its own range, later, or lies past T, in the slack.
// It does need `a` and `out` to be different buffers.
//
// Ranges that run at once (GemmMode::kAtOnce) have a ladder of one thread, and no order: a call whose
// rung is larger than its rows writes to memory of its thread's, and its rows are copied out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "device/device.h"
#include "device/gemm_deal.h"

namespace itif::device {

class GemmLibrary {
 public:
  static constexpr uint32_t kMaxRows = 512;  // measured: as fast a row as calls of 2,048
  static constexpr uint32_t kRowSlack = 15;
  static constexpr uint32_t kAtOnceRows = GemmDeal::kMostTaskRows;  // of a task of one thread

  // compute: kF32 or kBF16.
  GemmLibrary(DType compute, uint32_t num_threads);
  ~GemmLibrary();
  GemmLibrary(const GemmLibrary&) = delete;
  GemmLibrary& operator=(const GemmLibrary&) = delete;

  // See Device. Any control thread; safe while streams run.
  Result<size_t> packed_bytes(const GemmShape& shape);
  Status pack(const GemmShape& shape, std::span<const TensorView> weight, void* target);
  Result<GemmHandle> prepare(const GemmShape& shape, uint32_t max_rows);
  // Shapes whose primitives exist: those somebody holds a handle of.
  size_t num_prepared() const;

  // What one stream needs to run GEMMs: oneDNN's stream and memory handles.
  class Runner {
   public:
    virtual ~Runner() = default;
    // Those that are all to run at once share one deal over the threads. REQUIRES: each is prepared for
    // its shape. Errors: kInternal, oneDNN's failure.
    virtual Status run(std::span<const kernels::GroupedGemm> all) = 0;
  };
  Result<std::unique_ptr<Runner>> make_runner();

  struct State;  // oneDNN's side, shared with the runners

 private:
  std::shared_ptr<State> state_;
};

// "oneDNN 2.6.3", for logs.
std::string gemm_library_name();

}  // namespace itif::device
