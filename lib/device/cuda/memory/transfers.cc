#include "device/cuda/memory/transfers.h"

#include <algorithm>
#include <cstring>

namespace itif::device::cuda {
namespace {

constexpr const char* kStart = "cannot prepare copies to the GPU";

}  // namespace

Status Transfers::open() {
  const std::lock_guard lock(mutex_);
  return open_locked();
}

Status Transfers::open_locked() {
  if (stages_.back().copied != nullptr) return check(cudaSetDevice(ordinal_), kStart);
  int has_pool = 0;
  ITIF_TRY(check(cudaGetDevice(&ordinal_), kStart));
  ITIF_TRY(
      check(cudaDeviceGetAttribute(&has_pool, cudaDevAttrMemoryPoolsSupported, ordinal_), kStart));
  has_pool_ = has_pool != 0;
  if (stream_ == nullptr)
    ITIF_TRY(check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), kStart));
  for (Stage& stage : stages_) {
    if (stage.data == nullptr)
      ITIF_TRY(check(
          cudaHostAlloc(reinterpret_cast<void**>(&stage.data), kStageBytes, cudaHostAllocDefault),
          kStart));
    if (stage.copied == nullptr)
      ITIF_TRY(check(
          cudaEventCreateWithFlags(&stage.copied, cudaEventDisableTiming | cudaEventBlockingSync),
          kStart));
  }
  return {};
}

void Transfers::close() noexcept {
  const std::lock_guard lock(mutex_);
  for (Stage& stage : stages_) {
    if (stage.copied != nullptr) (void)cudaEventDestroy(stage.copied);
    if (stage.data != nullptr) (void)cudaFreeHost(stage.data);
    stage = {};
  }
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  stream_ = nullptr;
}

Status Transfers::wait(const char* what) {
  return check(cudaStreamSynchronize(stream_), what);
}

Result<void*> Transfers::allocate(size_t bytes) {
  constexpr const char* kWhat = "cannot allocate device memory";
  const std::lock_guard lock(mutex_);
  ITIF_TRY(open_locked());
  void* made = nullptr;
  ITIF_TRY(
      check(has_pool_ ? cudaMallocAsync(&made, bytes, stream_) : cudaMalloc(&made, bytes), kWhat));
  Status cleared = check(cudaMemsetAsync(made, 0, bytes, stream_), "cannot clear device memory");
  if (cleared) cleared = wait(kWhat);
  if (cleared) return made;
  (void)(has_pool_ ? cudaFreeAsync(made, stream_) : cudaFree(made));
  return std::unexpected(std::move(cleared.error()));
}

void Transfers::free(void* memory) noexcept {
  const std::lock_guard lock(mutex_);
  (void)cudaSetDevice(ordinal_);
  if (!has_pool_) return void(cudaFree(memory));
  (void)cudaFreeAsync(memory, stream_);
  (void)cudaStreamSynchronize(stream_);  // the pool then returns the memory to the device
}

Status Transfers::fill(void* memory, int value, size_t bytes, const char* what) {
  const std::lock_guard lock(mutex_);
  ITIF_TRY(open_locked());
  ITIF_TRY(check(cudaMemsetAsync(memory, value, bytes, stream_), what));
  return wait(what);
}

Status Transfers::to_device(std::span<const std::byte> source, void* target, const char* what) {
  const std::lock_guard lock(mutex_);
  ITIF_TRY(open_locked());
  auto* to = static_cast<std::byte*>(target);
  for (size_t part = 0; !source.empty(); ++part) {
    const Stage& stage = stages_[part % stages_.size()];
    const auto bytes = source.first(std::min(source.size(), kStageBytes));
    if (part >= stages_.size()) ITIF_TRY(check(cudaEventSynchronize(stage.copied), what));
    std::memcpy(stage.data, bytes.data(), bytes.size());
    ITIF_TRY(check(cudaMemcpyAsync(to, stage.data, bytes.size(), cudaMemcpyHostToDevice, stream_),
                   what));
    ITIF_TRY(check(cudaEventRecord(stage.copied, stream_), what));
    to += bytes.size();
    source = source.subspan(bytes.size());
  }
  return wait(what);
}

Status Transfers::to_host(const void* source, std::span<std::byte> target, const char* what) {
  const std::lock_guard lock(mutex_);
  ITIF_TRY(open_locked());
  const auto* from = static_cast<const std::byte*>(source);
  for (; !target.empty();) {
    const auto bytes = target.first(std::min(target.size(), kStageBytes));
    ITIF_TRY(
        check(cudaMemcpyAsync(stages_[0].data, from, bytes.size(), cudaMemcpyDeviceToHost, stream_),
              what));
    ITIF_TRY(wait(what));
    std::memcpy(bytes.data(), stages_[0].data, bytes.size());
    from += bytes.size();
    target = target.subspan(bytes.size());
  }
  return {};
}

}  // namespace itif::device::cuda
