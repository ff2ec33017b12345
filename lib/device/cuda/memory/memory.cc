#include "device/cuda/memory/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/convert.h"

namespace itif::device::cuda {
namespace {

bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(std::shared_ptr<Budget> budget, void* data, size_t bytes)
      : budget_(std::move(budget)) {
    data_ = static_cast<std::byte*>(data);
    bytes_ = bytes;
  }
  ~CudaBuffer() override {
    budget_->transfers().free(data_);
    budget_->give_back(bytes_);
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

 private:
  std::shared_ptr<Budget> budget_;
};

}  // namespace

size_t free_bytes() {
  size_t free = 0, all = 0;
  return cudaMemGetInfo(&free, &all) == cudaSuccess ? free : 0;
}

Status Budget::take(size_t bytes, const char* what) {
  const size_t used = used_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const size_t limit = limit_bytes();
  if (used <= limit) return {};
  give_back(bytes);
  return fail(Code::kResourceExhausted,
              fmt::format("no device memory for {}: {} over the limit of {}", what,
                          format_bytes(used - limit), format_bytes(limit)));
}

size_t Budget::available_bytes() const {
  const size_t free = free_bytes();
  const size_t used = used_bytes_.load(std::memory_order_relaxed);
  const size_t limit = limit_bytes();
  return std::min(free, limit - std::min(limit, used));
}

size_t Budget::raise_limit(size_t bytes) {
  size_t limit = limit_bytes();
  while (limit < bytes)
    if (limit_bytes_.compare_exchange_weak(limit, bytes, std::memory_order_relaxed))
      return bytes - limit;
  return 0;
}

Status finish_write(cudaError_t started, const char* what) {
  ITIF_TRY(check(started, what));
  return check(cudaStreamSynchronize(cudaStreamLegacy), what);
}

Status upload_floats(Transfers& transfers, const TensorView& source, DType type, void* target) {
  if (!is_float(source.dtype) || !is_float(type))
    return fail(Code::kInvalidArgument,
                fmt::format("cannot upload {} as {}: only f32, bf16 and f16",
                            dtype_name(source.dtype), dtype_name(type)));
  constexpr const char* kWhat = "cannot upload weights";
  const size_t bytes = source.shape.elements() * dtype_bytes(type);
  if (source.dtype == type) return transfers.to_device({source.data, bytes}, target, kWhat);
  std::vector<std::byte> converted(bytes);
  convert_floats(source, type, converted.data());
  return transfers.to_device(converted, target, kWhat);
}

Result<std::unique_ptr<Buffer>> allocate_buffer(std::shared_ptr<Budget> budget, size_t bytes) {
  bytes = std::max<size_t>(1, bytes);
  ITIF_TRY(budget->take(bytes, "a buffer"));
  auto data = budget->transfers().allocate(bytes);
  if (!data) {
    budget->give_back(bytes);
    return std::unexpected(std::move(data.error()));
  }
  return std::make_unique<CudaBuffer>(std::move(budget), *data, bytes);
}

Result<Pinned> Pinned::allocate(size_t bytes) {
  Pinned pinned;
  ITIF_TRY(check(cudaHostAlloc(reinterpret_cast<void**>(&pinned.data_), std::max<size_t>(1, bytes),
                               cudaHostAllocPortable),
                 "cannot allocate pinned host memory"));
  pinned.bytes_ = bytes;
  return pinned;
}
Pinned::Pinned(Pinned&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
Pinned& Pinned::operator=(Pinned&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
Pinned::~Pinned() {
  if (data_ != nullptr) (void)cudaFreeHost(data_);
}

}  // namespace itif::device::cuda
