#include "device/host/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/compute_types.h"
#include "device/convert.h"
#include "device/host/bf16_products.h"
#include "device/host/host_stream.h"
#include "device/threads.h"

namespace itif::device {
namespace {

// Returns how many sleeping threads throttle a pool of so many threads.
uint32_t num_sleepers(uint32_t num_threads) {
  return num_process_cpus() - std::min(num_process_cpus(), num_threads) + 1;
}

}  // namespace

HostDevice::HostDevice(DeviceInfo info, kernels::host::Bf16Products products,
                       size_t memory_limit_bytes)
    : info_(std::move(info)),
      launch_{.activation = info_.compute.activations,
              .num_threads = info_.num_threads,
              .bf16_products = products},
      budget_(std::make_shared<MemoryBudget>(memory_limit_bytes)),
      gemms_(info_.compute, info_.num_threads),
      throttle_(num_sleepers(info_.num_threads)) {
  info_.memory_bytes = budget_->available_bytes();
}

Result<std::unique_ptr<Buffer>> HostDevice::allocate(size_t bytes) {
  return allocate_host_buffer(budget_, bytes);
}

Result<std::unique_ptr<SlabMemory>> HostDevice::reserve_slab(size_t slot_bytes,
                                                             uint32_t max_slots) {
  return reserve_host_slab(budget_, slot_bytes, max_slots);
}

Status HostDevice::upload(const TensorView& source, DType type, void* target) {
  const auto is_float = [](DType t) {
    return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16;
  };
  if (!is_float(source.dtype) || (type != DType::kF32 && type != DType::kBF16))
    return fail(Code::kInvalidArgument,
                fmt::format("cannot upload {} as {}: the host device takes f32, "
                            "bf16 and f16 and keeps f32 and bf16",
                            dtype_name(source.dtype), dtype_name(type)));
  convert_floats(source, type, static_cast<std::byte*>(target));
  return {};
}

void HostDevice::download(const void* source, size_t bytes, void* target) {
  if (bytes != 0) std::memcpy(target, source, bytes);
}

Status HostDevice::pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) {
  return gemms_.pack(shape, weight, target);
}

Result<GemmHandle> HostDevice::prepare(const GemmShape& shape, uint32_t max_rows) {
  return gemms_.prepare(shape, max_rows);
}

Result<std::unique_ptr<Stream>> HostDevice::make_stream(const StreamLimits& limits,
                                                        const StreamOptions& options) {
  static const SystemClock clock;
  std::shared_ptr<Turns> turns;
  {
    const std::lock_guard lock(turns_mutex_);
    std::weak_ptr<Turns>& known = turns_[options.share.cpus];
    turns = known.lock();
    if (turns == nullptr) known = turns = std::make_shared<Turns>(clock, beside_loads_);
  }
  kernels::host::HostLaunch launch = launch_;
  if (!options.share.cpus.empty())
    launch.num_threads =
        std::min(launch.num_threads, static_cast<uint32_t>(options.share.cpus.size()));
  throttle_.add_sleepers(num_sleepers(launch.num_threads));
  return make_host_stream(gemms_, launch, throttle_, std::move(turns), limits, options);
}

Status check_host_types(const ComputeTypes& types) {
  if (types == uniform_types(DType::kF32) || types == uniform_types(DType::kBF16)) return {};
  if (types.weights != types.activations)
    return fail(Code::kUnsupported,
                fmt::format("the host device has no GEMM of {} weights and {} activations",
                            dtype_name(types.weights), dtype_name(types.activations)));
  return fail(Code::kUnsupported,
              fmt::format("dtype {} is for GPUs: the host device computes in bf16 or f32",
                          dtype_name(types.weights)));
}

Result<std::unique_ptr<Device>> open_host_device(const DeviceOptions& options,
                                                 const CpuFeatures& cpu) {
  DeviceInfo info;
  info.kind = "host";
  info.division = Division::kTime;
  info.slices = "turns";
  info.num_threads = options.num_threads == 0 ? num_process_cpus() : options.num_threads;
  if (info.num_threads > 1024)
    return fail(Code::kInvalidArgument,
                fmt::format("{} threads for the host device: at most 1024", options.num_threads));
  ITIF_ASSIGN(info.compute,
              read_compute_types(options.dtype,
                                 uniform_types(cpu.has_avx512_bf16 ? DType::kBF16 : DType::kF32)));
  ITIF_TRY(check_host_types(info.compute));
  const bool uses_bf16 = info.compute.activations == DType::kBF16;
  // Reject emulated bf16: it is slower than f32 and no more accurate.
  if (uses_bf16 && !cpu.has_avx512_bf16)
    return fail(Code::kUnsupported,
                fmt::format("dtype bf16 needs a CPU with AVX512-BF16 or AMX-BF16; "
                            "{} has {}: use auto or f32",
                            cpu.name, cpu.best_isa));
  const std::string isa = uses_bf16 || !cpu.has_avx512_bf16 ? cpu.best_isa : "AVX512";
  info.cache_bytes = cpu.cache_bytes;
  info.core_cache_bytes = cpu.core_cache_bytes;
  info.reason = options.reason;
  info.description = fmt::format("{}, {}, {} thread{}, {}", cpu.name, isa, info.num_threads,
                                 info.num_threads == 1 ? "" : "s", gemm_library_name());
  return std::make_unique<HostDevice>(std::move(info), choose_bf16_products(cpu),
                                      options.memory_limit_bytes);
}

}  // namespace itif::device
