// oneDNN's primitives by shape, rows and threads, shared by GemmLibrary and its runners. Only for
// gemm*.cc.
#pragma once

#include <omp.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "device/device.h"
#include "device/host/gemm_rows.h"

namespace itif::device {

inline constexpr uint32_t kFineRungs = 4;  // 1, 2, 4, 8
inline constexpr uint32_t kStep = kRowSlack + 1;
inline constexpr uint32_t kMaxPartRows = 128;  // of a part of the columns
inline constexpr uint32_t kNumRungs = kFineRungs + kMaxCallRows / kStep;

constexpr uint32_t rung_of(uint32_t rows) {
  if (rows <= 1) return 0;
  if (rows <= 8) return rows <= 2 ? 1 : rows <= 4 ? 2 : 3;
  return kFineRungs + (rows - 1) / kStep;
}
constexpr uint32_t rung_rows(uint32_t rung) {
  return rung < kFineRungs ? 1u << rung : (rung - kFineRungs + 1) * kStep;
}

// Sets the calling thread's number of OpenMP threads, which oneDNN uses when a primitive is created
// and when it runs. Control threads pack with one thread, so that they do not start a second pool
// beside the executor's.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(uint32_t count) : previous_(omp_get_max_threads()) {
    omp_set_num_threads(static_cast<int>(count));
  }
  ~OpenMpThreads() { omp_set_num_threads(previous_); }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  int previous_;
};

inline dnnl::memory::data_type dnnl_type(DType type) {
  return type == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

struct Rung {
  uint32_t num_threads = 1;
  dnnl::matmul primitive;
  size_t scratch_bytes = 0;
};

// Primitives for one number of threads, by rung. Control threads add them while streams look them
// up.
struct Rungs {
  std::array<std::unique_ptr<Rung>, kNumRungs> owned;
  std::array<std::atomic<const Rung*>, kNumRungs> shared{};

  const Rung* of(uint32_t rows) const {
    return shared[rung_of(rows)].load(std::memory_order_acquire);
  }
};

struct Ladder;

// Equal parts of a weight's columns, each as a GEMM of its own. With company, a large GEMM runs in
// such parts (gemm_runner.cc): in parts of its rows it would read all of the weight for each.
struct ColumnParts {
  uint32_t count = 1;       // 1: the weight is small, or oneDNN has no fast GEMM for parts of it
  size_t weight_bytes = 0;  // from a part of the packed weight to the next
  std::unique_ptr<Ladder> ladder;  // n: columns of a part; rungs up to kMaxPartRows
};

// The primitives of one (n, k, has_bias, f32_out).
struct Ladder final : kernels::PreparedGemm {
  explicit Ladder(uint32_t num_threads) : by_threads(num_threads + 1) {}

  uint32_t n = 0;
  uint32_t k = 0;
  bool has_bias = false;
  bool f32_out = false;
  dnnl::memory::desc weights;  // the same layout for every rung
  uint32_t last_rung = 0;      // the largest that a group needs
  ColumnParts parts;
  // Primitives for [n] threads; null: no stream computes with n threads. [1] also serves the tasks
  // of concurrent ranges. An element does not change once a stream may use it.
  std::vector<std::unique_ptr<Rungs>> by_threads;

  bool is(const GemmShape& shape) const {
    return n == shape.n && k == shape.k && has_bias == shape.has_bias && f32_out == shape.f32_out;
  }
};

// oneDNN's engine, and the ladders of all shapes that somebody holds.
struct GemmState {
  GemmState(const ComputeTypes& types, uint32_t num_threads)
      : types(types),
        num_threads(num_threads),
        engine(dnnl::engine::kind::cpu, 0),
        thread_counts{num_threads} {}

  const ComputeTypes types;
  const uint32_t num_threads;  // the most of any stream
  dnnl::engine engine;
  std::mutex mutex;  // guards creation; look-ups do not take it
  std::vector<std::weak_ptr<Ladder>> ladders;
  std::vector<uint32_t> thread_counts;   // of streams so far, without repetition
  std::atomic<size_t> scratch_bytes{0};  // most of any primitive so far
  std::atomic<size_t> staging_bytes{0};  // most of any task's output so far

  // Returns the ladder of a shape, shared with its other holders. REQUIRES: mutex is held. Throws.
  std::shared_ptr<Ladder> find_or_add(const GemmShape& shape);
  // Makes the rungs of all ladders for streams of so many threads, now and in prepare(). REQUIRES:
  // mutex is held, 0 < count <= num_threads. Throws.
  void add_thread_count(uint32_t count);
  // Makes a ladder's missing rungs up to last_rung, for all streams. REQUIRES: mutex is held.
  // Throws.
  void add_rungs(Ladder& ladder);

 private:
  void add_column_parts(Ladder& ladder);
  void add_rungs(Ladder& ladder, uint32_t last, uint32_t max_threads);
  dnnl::matmul::primitive_desc describe(const Ladder& ladder, uint32_t rows,
                                        const dnnl::memory::desc& weights);
  void add_rung(const Ladder& ladder, Rungs& rungs, uint32_t index, uint32_t max_threads);
};

inline void raise(std::atomic<size_t>& max, size_t value) {
  if (value > max.load(std::memory_order_relaxed)) max.store(value, std::memory_order_relaxed);
}

}  // namespace itif::device
