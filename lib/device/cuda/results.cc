#include "device/cuda/results.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cuda/error.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kLeastBytes = 1 << 20;
constexpr size_t kAlignment = 16;
constexpr const char* kWhat = "the GPU failed a batch";

}  // namespace

void Results::add(const void* source, size_t bytes, void* target) {
  if (bytes == 0) return;
  CHECK(used_ + bytes <= UINT32_MAX);
  pieces_.push_back(
      {.from = source, .at = static_cast<uint32_t>(used_), .bytes = static_cast<uint32_t>(bytes)});
  targets_.push_back({used_, bytes, target});
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Status Results::stage(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
                      cudaStream_t stream, const std::function<void()>& flush) {
  const std::vector<kernels::cuda::CopyPiece>& all = pieces_;
  Status grown = grow(stream, flush);
  const auto* pieces = plan.put(launch, std::span<const kernels::cuda::CopyPiece>(all));
  if (grown && pieces != nullptr) {
    const auto count = static_cast<uint32_t>(all.size());
    uint32_t longest = 0;
    bool are_words = true;
    for (const kernels::cuda::CopyPiece& piece : all) {
      longest = std::max(longest, piece.bytes);
      are_words &= (piece.bytes | reinterpret_cast<uintptr_t>(piece.from)) % sizeof(uint32_t) == 0;
    }
    key.add(pieces);
    key.add(count);
    key.add(longest);
    key.add(are_words);
    key.add(staged_->data());
    kernels::cuda::copy_pieces(launch, pieces, count, longest, are_words, staged_->data());
  }
  pieces_.clear();
  return grown;
}

// What is staged already moves along.
Status Results::grow(cudaStream_t stream, const std::function<void()>& flush) {
  if (used_ <= host_.bytes()) return {};
  const size_t bytes = std::max(kLeastBytes, 2 * used_);
  ITIF_ASSIGN(Pinned host, Pinned::allocate(bytes));
  ITIF_ASSIGN(std::unique_ptr<Buffer> staged, allocate_buffer(budget_, bytes));
  if (staged_) {
    flush();
    ITIF_TRY(check(cudaMemcpyAsync(staged->data(), staged_->data(), host_.bytes(),
                                   cudaMemcpyDeviceToDevice, stream),
                   kWhat));
    ITIF_TRY(check(cudaStreamSynchronize(stream), kWhat));
  }
  host_ = std::move(host);
  staged_ = std::move(staged);
  return {};
}

cudaError_t Results::copy(cudaStream_t stream) {
  if (used_ == 0 || !staged_) return cudaSuccess;
  return cudaMemcpyAsync(host_.data(), staged_->data(), used_, cudaMemcpyDeviceToHost, stream);
}

void Results::deliver() const {
  for (const Target& target : targets_)
    std::memcpy(target.to, host_.data() + target.at, target.bytes);
}

void Results::clear() noexcept {
  pieces_.clear();
  targets_.clear();
  used_ = 0;
}

}  // namespace itif::device::cuda
