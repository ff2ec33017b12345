// GEMMs through cuBLAS and copies by the driver. The work is one CUDA graph, so that the host's
// calls do not become the limit.
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "device/cuda/driver/error.h"
#include "device/cuda/gemm/blas.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/cuda/memory/memory.h"
#include "limits/bare_parts.h"
#include "limits/noise.h"

namespace itif::bench {
namespace {

using device::cuda::Blas;
using device::cuda::check;

constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr const char* kWhat = "cannot measure the GPU's limit";
constexpr float kOne = 1, kZero = 0;

// Small random numbers: zeros would let the hardware save power.
std::vector<uint16_t> noise(DType type) {
  Random random(1);
  std::vector<uint16_t> bits;
  const auto next = [&] { return static_cast<float>(random.uniform() - 0.5) * 0.1f; };
  for (int i = 0; i < 1 << 20; ++i) {
    const float value = next();
    if (type == DType::kF16) {
      bits.push_back(f32_to_f16(value));
    } else if (type == DType::kBF16) {
      bits.push_back(f32_to_bf16(value));
    } else {
      const auto whole = std::bit_cast<uint32_t>(value);
      bits.insert(bits.end(), {static_cast<uint16_t>(whole), static_cast<uint16_t>(whole >> 16)});
    }
  }
  return bits;
}

class Memory {
 public:
  Memory() = default;
  Memory(Memory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Memory() {
    if (data_ != nullptr) (void)cudaFree(data_);
  }
  static Result<Memory> allocate(size_t bytes) {
    Memory memory;
    ITIF_TRY(check(cudaMalloc(&memory.data_, std::max<size_t>(bytes, 1)), kWhat));
    return memory;
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// The work of a stream, captured as one graph.
class Graph : public Bare {
 public:
  ~Graph() override {
    if (exec_ != nullptr) (void)cudaGraphExecDestroy(exec_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }
  void run() override {
    CHECK(cudaGraphLaunch(exec_, stream_) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream_) == cudaSuccess);
  }

 protected:
  Status open() { return check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), kWhat); }
  // Captures what `enqueue` launches. A second call captures a second way to do the same work, and
  // keeps the faster. Runs `enqueue` once before the capture: libraries load code at their first
  // call, which a capture forbids.
  template <class Enqueue>
  Status record(const Enqueue& enqueue) {
    cudaGraphExec_t first = std::exchange(exec_, nullptr);
    const Status recorded = capture(enqueue);
    if (first == nullptr) return recorded;
    if (exec_ == nullptr || !recorded || fastest_ns(first) <= fastest_ns(exec_))
      std::swap(first, exec_);
    if (first != nullptr) (void)cudaGraphExecDestroy(first);
    return recorded;
  }
  cudaStream_t stream() const { return stream_; }

 private:
  uint64_t fastest_ns(cudaGraphExec_t exec) {
    static const SystemClock clock;
    uint64_t min_ns = UINT64_MAX;
    for (int i = 0; i < 4; ++i) {
      const uint64_t before_ns = clock.now_ns();
      CHECK(cudaGraphLaunch(exec, stream_) == cudaSuccess);
      CHECK(cudaStreamSynchronize(stream_) == cudaSuccess);
      min_ns = std::min(min_ns, clock.now_ns() - before_ns);
    }
    return min_ns;
  }
  template <class Enqueue>
  Status capture(const Enqueue& enqueue) {
    ITIF_TRY(enqueue());
    ITIF_TRY(check(cudaStreamSynchronize(stream_), kWhat));
    ITIF_TRY(check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), kWhat));
    const Status enqueued = enqueue();
    cudaGraph_t graph = nullptr;
    const Status ended = check(cudaStreamEndCapture(stream_, &graph), kWhat);
    if (enqueued && ended) ITIF_TRY(check(cudaGraphInstantiate(&exec_, graph, 0), kWhat));
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    ITIF_TRY(Status(enqueued));
    return ended;
  }

  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

class CublasGemms final : public Graph {
 public:
  explicit CublasGemms(const Blas& blas, DType type) : blas_(blas), type_(type) {}
  ~CublasGemms() override {
    for (const BlasStream& blas_stream : streams_) {
      if (blas_stream.handle != nullptr) (void)blas_.destroy(blas_stream.handle);
      if (blas_stream.done != nullptr) (void)cudaEventDestroy(blas_stream.done);
      if (blas_stream.stream != nullptr && blas_stream.stream != stream())
        (void)cudaStreamDestroy(blas_stream.stream);
    }
    if (fork_ != nullptr) (void)cudaEventDestroy(fork_);
  }
  Status make(std::span<const GemmSize> sizes, const GemmOrder& order) {
    ITIF_TRY(open());
    ITIF_TRY(check(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), kWhat));
    for (BlasStream& blas_stream : streams_) ITIF_TRY(open_stream(blas_stream));
    const std::vector<uint16_t> block = noise(type_);
    Random random(2);
    for (const GemmSize& size : sizes) {
      Gemm gemm{.size = size};
      ITIF_ASSIGN(gemm.a, noisy(size_t{size.rows} * size.k, block, random));
      ITIF_ASSIGN(gemm.w, noisy(size_t{size.n} * size.k, block, random));
      ITIF_ASSIGN(gemm.out, allocate(size_t{size.rows} * size.n * dtype_bytes(type_)));
      gemms_.push_back(gemm);
    }
    ITIF_TRY(record([&]() -> Status {
      for (const std::vector<uint32_t>& group : order)
        for (const uint32_t at : group) ITIF_TRY(enqueue(gemms_[at], streams_[0]));
      return {};
    }));
    if (std::ranges::all_of(order, [](const auto& group) { return group.size() < 2; })) return {};
    return record([&]() -> Status {
      for (const std::vector<uint32_t>& group : order) ITIF_TRY(enqueue_together(group));
      return {};
    });
  }

 private:
  // A stream with its cuBLAS handle. The first is the graph's own.
  struct BlasStream {
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
    cublasHandle_t handle = nullptr;
  };
  static constexpr size_t kStreams = 4;

  Status open_stream(BlasStream& blas_stream) {
    if (&blas_stream == &streams_[0])
      blas_stream.stream = stream();
    else
      ITIF_TRY(check(cudaStreamCreateWithFlags(&blas_stream.stream, cudaStreamNonBlocking), kWhat));
    ITIF_TRY(check(cudaEventCreateWithFlags(&blas_stream.done, cudaEventDisableTiming), kWhat));
    ITIF_TRY(check(blas_.create(&blas_stream.handle), kWhat));
    ITIF_TRY(check(blas_.set_stream(blas_stream.handle, blas_stream.stream), kWhat));
    ITIF_TRY(check(  // as in itif's GEMMs
        blas_.set_math_mode(blas_stream.handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION),
        kWhat));
    ITIF_ASSIGN(void* const workspace, allocate(kWorkspaceBytes));
    return check(blas_.set_workspace(blas_stream.handle, workspace, kWorkspaceBytes), kWhat);
  }
  // Several GEMMs at a time: those of a group take the streams in rotation.
  Status enqueue_together(const std::vector<uint32_t>& group) {
    const size_t used = std::min(kStreams, group.size());
    ITIF_TRY(check(cudaEventRecord(fork_, stream()), kWhat));
    for (size_t i = 1; i < used; ++i)
      ITIF_TRY(check(cudaStreamWaitEvent(streams_[i].stream, fork_, 0), kWhat));
    for (size_t i = 0; i < group.size(); ++i)
      ITIF_TRY(enqueue(gemms_[group[i]], streams_[i % used]));
    for (size_t i = 1; i < used; ++i) {
      ITIF_TRY(check(cudaEventRecord(streams_[i].done, streams_[i].stream), kWhat));
      ITIF_TRY(check(cudaStreamWaitEvent(stream(), streams_[i].done, 0), kWhat));
    }
    return {};
  }
  struct Gemm {
    GemmSize size;
    void *a = nullptr, *w = nullptr, *out = nullptr;
  };

  Result<void*> allocate(size_t bytes) {
    ITIF_ASSIGN(Memory memory, Memory::allocate(bytes));
    memory_.push_back(std::move(memory));
    return memory_.back().data();
  }
  Result<void*> noisy(size_t count, std::span<const uint16_t> block, Random& random) {
    const size_t bytes = count * dtype_bytes(type_);
    ITIF_ASSIGN(void* const data, allocate(bytes));
    std::vector<uint16_t> values(bytes / sizeof(uint16_t));
    fill_from<uint16_t>(block, random.below(block.size() / 2) * 2, values);
    ITIF_TRY(device::cuda::finish_write(
        cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice), kWhat));
    return data;
  }
  // out = a · Wᵀ, row by row.
  Status enqueue(const Gemm& g, const BlasStream& blas_stream) {
    const auto m = static_cast<int>(g.size.n), n = static_cast<int>(g.size.rows),
               k = static_cast<int>(g.size.k);
    const cudaDataType type = device::cuda::type_of(type_);
    return check(
        blas_.gemm(blas_stream.handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &kOne, g.w, type, k, g.a,
                   type, k, &kZero, g.out, type, m, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        kWhat);
  }

  const Blas& blas_;
  const DType type_;
  std::array<BlasStream, kStreams> streams_;
  cudaEvent_t fork_ = nullptr;
  std::vector<Memory> memory_;
  std::vector<Gemm> gemms_;
};

class Copies final : public Graph {
 public:
  ~Copies() override {
    if (pinned_ != nullptr) (void)cudaFreeHost(pinned_);
  }
  Status make(size_t bytes, uint32_t times, bool is_from_host) {
    ITIF_TRY(open());
    ITIF_ASSIGN(to_, Memory::allocate(bytes));
    if (is_from_host) {
      ITIF_TRY(
          check(cudaHostAlloc(&pinned_, std::max<size_t>(bytes, 1), cudaHostAllocDefault), kWhat));
    } else {
      ITIF_ASSIGN(from_, Memory::allocate(bytes));
    }
    return record([&]() -> Status {
      for (uint32_t i = 0; i < times; ++i)
        ITIF_TRY(
            check(cudaMemcpyAsync(to_->data(), is_from_host ? pinned_ : from_->data(), bytes,
                                  is_from_host ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice,
                                  stream()),
                  kWhat));
      return {};
    });
  }

 private:
  std::optional<Memory> from_, to_;
  void* pinned_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<Bare>> cuda_gemms(const Hardware& on, std::span<const GemmSize> gemms,
                                         const GemmOrder& order) {
  ITIF_ASSIGN(const Blas* blas, device::cuda::load_blas());
  auto made = std::make_unique<CublasGemms>(*blas, on.compute.activations);
  ITIF_TRY(made->make(gemms, order));
  return made;
}

Result<std::unique_ptr<Bare>> cuda_copy(size_t bytes, uint32_t times, bool is_from_host) {
  auto made = std::make_unique<Copies>();
  ITIF_TRY(made->make(bytes, times, is_from_host));
  return made;
}

}  // namespace itif::bench
