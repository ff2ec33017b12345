#include "device/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "device/compute_types.h"
#include "device/cuda/cudnn/cudnn.h"
#include "device/cuda/driver/error.h"
#include "device/cuda/gemm/blas.h"
#include "device/cuda/gemm/blas_trial.h"
#include "device/cuda/gemm/gemm.h"
#include "device/cuda/gemm/packed_weights.h"
#include "device/cuda/memory/memory.h"
#include "device/cuda/memory/virtual_memory.h"
#include "device/cuda/stream.h"
#include "device/regained_memory.h"

namespace itif::device {
namespace {

using cuda::check;

constexpr size_t kUsualDifference = 64 << 20;  // free memory varies by this from context to context

// Memory that the limit leaves free. The driver and cuBLAS load kernels while we serve, and graphs
// have a budget of their own.
struct Reserve {
  explicit Reserve(size_t free_bytes)
      : driver_bytes(std::max(free_bytes / 32, std::min<size_t>(512 << 20, free_bytes / 16))),
        graph_bytes(std::clamp<size_t>(free_bytes / 12, std::min<size_t>(1 << 30, free_bytes / 4),
                                       size_t{4} << 30)) {}
  size_t driver_bytes, graph_bytes;
};

// Enters the device's context in the calling thread. Threads that wait for the device sleep and
// leave the CPU to others.
Status enter_context(int ordinal) {
  ITIF_TRY(check(cudaSetDevice(ordinal), "the GPU cannot be used"));
  return check(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "the GPU cannot be used");
}

constexpr const char* kUseAnotherProcess =
    "`itifctl handover` starts a process that can use the GPU, and loses no request; or restart "
    "itifd";

// Checks that the device works: a stream, an allocation, a memset, a GEMM.
Status try_out(int ordinal) {
  constexpr const char* kWhat = "the GPU does not work after its reset";
  constexpr size_t kBytes = 4096;
  ITIF_TRY(enter_context(ordinal));
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  Status status = check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), kWhat);
  if (status) status = check(cudaMalloc(&memory, kBytes), kWhat);
  if (status) status = check(cudaMemsetAsync(memory, 0, kBytes, stream), kWhat);
  if (status) status = check(cudaStreamSynchronize(stream), kWhat);
  if (status) status = cuda::try_blas(stream);
  (void)cudaFree(memory);
  if (stream != nullptr) (void)cudaStreamDestroy(stream);
  return status;
}

// Returns the limit of buffers and slabs if so much memory is free without them.
size_t bound(size_t limit_bytes, size_t free) {
  const Reserve reserve(free);
  const size_t most = free - reserve.driver_bytes - reserve.graph_bytes;
  return limit_bytes == 0 ? most : std::min(limit_bytes, most);
}

Division division_of(cuda::SliceKind kind) {
  switch (kind) {
    case cuda::SliceKind::kNone: return Division::kNone;
    case cuda::SliceKind::kGreenContexts:
    case cuda::SliceKind::kMps: return Division::kProcessors;
    case cuda::SliceKind::kPriorities: return Division::kPriority;
  }
  return Division::kNone;
}

DeviceInfo with_slices(DeviceInfo info, const cuda::Slices& slices) {
  info.division = division_of(slices.kind());
  info.slices = cuda::name_of(slices.kind());
  info.slice_steps = slices.num_steps();
  return info;
}

class CudaDevice final : public Device, public RegainedMemory {
 public:
  CudaDevice(DeviceInfo info, const cudaDeviceProp& properties, const cuda::Cudnn* cudnn,
             std::unique_ptr<cuda::VirtualMemory> virtual_memory,
             std::unique_ptr<cuda::Slices> slices, const DeviceOptions& options)
      : virtual_memory_(std::move(virtual_memory)),
        parts_{
            .ordinal = static_cast<int>(options.ordinal),
            .compute = info.compute,
            .processors = {.count = static_cast<uint32_t>(properties.multiProcessorCount),
                           .max_threads =
                               static_cast<uint32_t>(properties.maxThreadsPerMultiProcessor),
                           .max_blocks =
                               static_cast<uint32_t>(properties.maxBlocksPerMultiProcessor)},
            .budget = std::make_shared<cuda::Budget>(
                bound(options.memory_limit_bytes, cuda::free_bytes())),
            .graph_budget = std::make_shared<cuda::Budget>(Reserve(cuda::free_bytes()).graph_bytes),
            .registered = std::make_shared<cuda::RegisteredMemory>(),
            .slices = std::move(slices),
            .cudnn = cudnn,
            .cudnn_only = options.attention == "cudnn-only"},
        epilogues_(parts_.slices->processor_counts()),
        trials_(parts_.budget),
        scratch_weights_(parts_.budget),
        memory_limit_bytes_(options.memory_limit_bytes),
        free_at_start_(cuda::free_bytes()) {
    info.memory_bytes = available_bytes();
    set_info(with_slices(std::move(info), *parts_.slices));
  }

  const DeviceInfo& info() const override { return *info_.load(std::memory_order_acquire); }
  size_t available_bytes() const override {
    const std::shared_lock lock(resetting_, std::try_to_lock);
    if (!lock) return last_available_bytes_;
    enter();
    return last_available_bytes_ = parts_.budget->available_bytes();
  }
  size_t regain_memory() override {
    const std::shared_lock lock(resetting_, std::try_to_lock);
    if (!lock) return 0;
    enter();
    // Other processes may free memory and take it again: only what two measurements find counts.
    const size_t measured = free_without_ours();
    const size_t free = std::min(measured, last_free_without_ours_.exchange(measured));
    raise_free_at_start(free);
    parts_.graph_budget->raise_limit(Reserve(free).graph_bytes);
    return parts_.budget->raise_limit(bound(memory_limit_bytes_, free));
  }
  size_t memory_bytes() const override { return parts_.budget->limit_bytes(); }

  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override {
    enter();
    return cuda::allocate_buffer(parts_.budget, bytes);
  }
  Result<std::unique_ptr<SlabMemory>> reserve_slab(size_t slot_bytes, uint32_t max_slots) override {
    return cuda::reserve_slab(parts_.budget, virtual_memory_, slot_bytes, max_slots);
  }

  Status upload(const TensorView& source, DType type, void* target) override {
    enter();
    return cuda::upload_floats(transfers(), source, type, target);
  }
  void download(const void* source, size_t bytes, void* target) override {
    enter();
    (void)transfers().to_host(source, {static_cast<std::byte*>(target), bytes},
                              "cannot copy from the GPU");
  }

  Result<size_t> packed_bytes(const GemmShape& shape) override {
    return cuda::packed_bytes(parts_.compute, shape);
  }
  Status pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) override {
    enter();
    return cuda::pack(transfers(), parts_.compute, shape, weight, target);
  }
  bool packs_bias(const GemmShape& shape) const override {
    return cuda::has_packed_bias(parts_.compute, shape);
  }
  Status pack_bias(const GemmShape& shape, std::span<const TensorView> bias,
                   void* target) override {
    enter();
    return cuda::pack_bias(transfers(), parts_.compute, shape, bias, target);
  }
  Result<GemmHandle> prepare(const GemmShape& shape, uint32_t max_rows) override {
    enter();
    return cuda::Gemms::prepare(trials_, epilogues_, scratch_weights_, parts_.compute, shape,
                                max_rows);
  }
  uint32_t row_slack() const override { return 0; }

  Status register_host_memory(const void* data, size_t bytes) override {
    enter();
    return parts_.registered->add(data, bytes);
  }

  Status reset() override {
    if (parts_.budget->used_bytes() > 0)
      return fail(Code::kUnavailable,
                  fmt::format("cannot reset the GPU: {} of its memory is still in use",
                              format_bytes(parts_.budget->used_bytes())));
    const std::unique_lock lock(resetting_);
    enter();
    epilogues_.close();
    trials_.close();
    transfers().close();
    parts_.slices->close();
    (void)cudaDeviceReset();  // may return the fault that it clears
    (void)cudaGetLastError();
    Status is_back = try_out(parts_.ordinal);
    if (is_back) {
      // Slices take memory, which was in use when free_at_start_ was measured, too.
      parts_.slices->open_again();
      is_back = take_back_memory();
    }
    if (!is_back) {
      parts_.slices->close();
      // After an illegal access, driver 580 answers every call of the process with
      // cudaErrorDevicesUnavailable. Another process can use the GPU.
      return fail(is_back.error().code,
                  fmt::format("{}: {}", is_back.error().message, kUseAnotherProcess));
    }
    epilogues_.set_processors(parts_.slices->processor_counts());
    set_info(with_slices(info(), *parts_.slices));
    parts_.registered->add_again();
    return {};
  }

  Result<std::unique_ptr<Stream>> make_stream(const StreamLimits& limits,
                                              const StreamOptions& options) override {
    enter();
    return cuda::make_stream(parts_, limits, options);
  }

 private:
  // Makes the GPU current in the calling thread, which may have used another one before.
  void enter() const { (void)cudaSetDevice(parts_.ordinal); }
  cuda::Transfers& transfers() const { return parts_.budget->transfers(); }
  size_t used_bytes() const {
    return parts_.budget->used_bytes() + parts_.graph_budget->used_bytes();
  }
  // Returns the memory that is free, or that buffers, slabs and graphs use. A buffer that is being
  // allocated or freed may count twice: in the budget, and as free memory. The least of several
  // measurements is without it.
  size_t free_without_ours() const {
    size_t least = SIZE_MAX;
    for (int i = 0; i < 5; ++i) {
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const size_t used_before = used_bytes(), free = cuda::free_bytes();
      least = std::min(least, free + std::min(used_before, used_bytes()));
    }
    return least;
  }
  void raise_free_at_start(size_t bytes) {
    size_t before = free_at_start_.load();
    while (before < bytes && !free_at_start_.compare_exchange_weak(before, bytes)) continue;
  }
  // Frees the memory that the device refused to take back while it was faulty.
  Status take_back_memory() {
    const size_t refused = virtual_memory_->free_refused();
    const size_t free = cuda::free_bytes();
    if (refused > 0 && free + refused <= free_at_start_)
      return fail(Code::kInternal, fmt::format("the GPU's reset did not free {} of its memory",
                                               format_bytes(refused)));
    virtual_memory_->forget_refused();
    if (free + kUsualDifference < free_at_start_)
      log::warning(
          "the GPU has {} less free memory than at the start; `itifctl handover`, or a restart of "
          "itifd, frees what no other process uses",
          format_bytes(free_at_start_ - free));
    return {};
  }

  void set_info(DeviceInfo info) {
    infos_.push_back(std::make_unique<const DeviceInfo>(std::move(info)));
    info_.store(infos_.back().get(), std::memory_order_release);
  }

  // The last one is current. The earlier ones stay, because any thread may still read them.
  std::vector<std::unique_ptr<const DeviceInfo>> infos_;
  std::atomic<const DeviceInfo*> info_{nullptr};
  const std::shared_ptr<cuda::VirtualMemory> virtual_memory_;
  const cuda::StreamParts parts_;
  cuda::Epilogues epilogues_;
  cuda::GemmTrials trials_;
  cuda::ScratchWeights scratch_weights_;
  const size_t memory_limit_bytes_;    // as configured; 0: the GPU's memory
  std::atomic<size_t> free_at_start_;  // or since regain_memory()
  std::atomic<size_t> last_free_without_ours_{free_at_start_.load()};  // by regain_memory()
  // Held exclusively during a reset, when no CUDA runtime call may run. available_bytes() then
  // returns the last figure.
  mutable std::shared_mutex resetting_;
  mutable std::atomic<size_t> last_available_bytes_{0};
};

// Returns nullptr if our kernels run attention.
Result<const cuda::Cudnn*> cudnn_for(const DeviceOptions& options, DType activation, int major) {
  if (options.attention == "itif") return nullptr;
  ITIF_ASSIGN(const cuda::Cudnn* cudnn, cuda::load_cudnn());
  ITIF_TRY(cudnn->check_version(major));
  if (activation != DType::kF32) return cudnn;
  if (options.attention == "cudnn-only")
    return fail(Code::kUnsupported, "cuDNN's attention supports only 16-bit types");
  log::warning("attention uses itif's kernels: cuDNN's supports only 16-bit types");
  return nullptr;
}

Result<std::unique_ptr<Device>> open_ordinal(const DeviceOptions& options,
                                             const ComputeTypes& types) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return fail(Code::kUnsupported, cudaGetErrorString(error));
  if (count == 0) return fail(Code::kUnsupported, "there is no CUDA device");
  const int ordinal = static_cast<int>(options.ordinal);
  if (ordinal >= count)
    return fail(Code::kUnsupported,
                fmt::format("there is no GPU {}: the machine has {}", ordinal, count));
  cudaDeviceProp properties{};
  ITIF_TRY(check(cudaGetDeviceProperties(&properties, ordinal), "the GPU does not answer"));
  if (properties.major * 10 + properties.minor < ITIF_LOWEST_CUDA_ARCH)
    return fail(
        Code::kUnsupported,
        fmt::format("{} has compute capability {}.{}, but this build needs {}.{}: configure it "
                    "with -Dgpu_archs={}{}",
                    properties.name, properties.major, properties.minor, ITIF_LOWEST_CUDA_ARCH / 10,
                    ITIF_LOWEST_CUDA_ARCH % 10, properties.major, properties.minor));
  ITIF_ASSIGN(const cuda::Blas* blas, cuda::load_blas());
  const size_t blas_version = blas->lt_version();
  const auto cudnn = cudnn_for(options, types.activations, properties.major);
  if (!cudnn)
    return fail(cudnn.error().code,
                fmt::format("attention cudnn cannot be used: {}; use attention itif",
                            cudnn.error().message));
  int driver_version = 0;
  ITIF_TRY(check(cudaDriverGetVersion(&driver_version), "the GPU's driver does not answer"));
  int can_use_host_pointers = 0;
  ITIF_TRY(check(cudaDeviceGetAttribute(&can_use_host_pointers,
                                        cudaDevAttrCanUseHostPointerForRegisteredMem, ordinal),
                 "the GPU does not answer"));
  if (can_use_host_pointers == 0)
    return fail(Code::kUnsupported,
                fmt::format("{} cannot read registered host memory in place", properties.name));
  ITIF_TRY(enter_context(ordinal));
  ITIF_ASSIGN(auto virtual_memory, cuda::VirtualMemory::open(ordinal));
  cuda::SliceOptions slice_options{.wanted = options.slices, .needs_one_context = {}};
  if (*cudnn != nullptr)
    slice_options.needs_one_context = "attention cudnn uses one context; use attention itif";
  ITIF_ASSIGN(auto slices, cuda::Slices::open(ordinal, std::move(slice_options)));
  DeviceInfo info;
  info.kind = "cuda";
  info.compute = types;
  info.description = fmt::format(
      "{}, compute capability {}.{}, {} multiprocessors, {}, driver for CUDA {}.{}, "
      "cuBLAS {}.{}.{}",
      properties.name, properties.major, properties.minor, properties.multiProcessorCount,
      format_bytes(properties.totalGlobalMem), driver_version / 1000, driver_version % 1000 / 10,
      blas_version / 10000, blas_version / 100 % 100, blas_version % 100);
  if (*cudnn != nullptr)
    info.description += fmt::format(", attention by cuDNN {}", (*cudnn)->version());
  info.reason = options.reason;
  info.max_bucket_rows = cuda::kMaxBucketRows;
  using enum kernels::GemmMode;
  info.gemm_modes = {kSequential, kStreams, kConcurrent, kPointers};
  return std::make_unique<CudaDevice>(std::move(info), properties, *cudnn,
                                      std::move(virtual_memory), std::move(slices), options);
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(const DeviceOptions& options) {
  ITIF_ASSIGN(const ComputeTypes types,
              read_compute_types(options.dtype, uniform_types(DType::kBF16)));
  ITIF_TRY(cuda::Gemms::check_types(types));
  auto opened = open_ordinal(options, types);
  if (opened) return opened;
  (void)cudaGetLastError();  // clears the thread's error for later CUDA calls
  return fail(Code::kUnsupported, std::move(opened.error().message));
}

}  // namespace itif::device
