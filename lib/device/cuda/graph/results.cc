#include "device/cuda/graph/results.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/cuda/driver/error.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kUnlessSaid = 1 << 20;  // default size
constexpr size_t kResultAlignment = 16;
constexpr const char* kWhat = "the GPU failed a batch";

}  // namespace

Result<std::shared_ptr<ResultStaging>> ResultStaging::make(std::shared_ptr<Budget> budget,
                                                           size_t bytes) {
  ITIF_ASSIGN(std::unique_ptr<Buffer> memory,
              allocate_buffer(budget, bytes == 0 ? kUnlessSaid : bytes));
  return std::shared_ptr<ResultStaging>(new ResultStaging(std::move(budget), std::move(memory)));
}

Status ResultStaging::grow(size_t bytes, size_t used, const SliceStreams& streams) {
  ITIF_ASSIGN(std::unique_ptr<Buffer> memory, allocate_buffer(budget_, bytes));
  ITIF_TRY(check(streams.enter(), kWhat));
  cudaStream_t stream = streams.streams[0];
  if (used > 0)
    ITIF_TRY(check(cudaMemcpyAsync(memory->data(), data(), used, cudaMemcpyDeviceToDevice, stream),
                   kWhat));
  ITIF_TRY(check(cudaStreamSynchronize(stream), kWhat));  // earlier batches' copies, too
  memory_ = std::move(memory);
  return {};
}

Result<Results> Results::make(std::shared_ptr<ResultStaging> staging) {
  Results made;
  ITIF_ASSIGN(made.host_, Pinned::allocate(staging->bytes()));
  made.staging_ = std::move(staging);
  return made;
}

void Results::add(const void* source, size_t bytes, void* target) {
  if (bytes == 0) return;
  CHECK(used_ + bytes <= UINT32_MAX);
  pieces_.push_back(
      {.from = source, .at = static_cast<uint32_t>(used_), .bytes = static_cast<uint32_t>(bytes)});
  targets_.push_back({used_, bytes, target});
  used_ += (bytes + kResultAlignment - 1) / kResultAlignment * kResultAlignment;
}

Status Results::stage(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
                      const SliceStreams& streams, const std::function<void()>& flush) {
  const std::vector<kernels::cuda::CopyPiece>& all = pieces_;
  Status grown = make_room(streams, flush);
  const auto* pieces = plan.put(launch, std::span<const kernels::cuda::CopyPiece>(all));
  if (grown && pieces != nullptr) {
    const auto count = static_cast<uint32_t>(all.size());
    const uint32_t longest =
        std::ranges::max_element(all, {}, &kernels::cuda::CopyPiece::bytes)->bytes;
    key.add(pieces);
    key.add(count);
    key.add(longest);
    key.add(staging_->data());
    kernels::cuda::copy_pieces(launch, pieces, count, longest, staging_->data());
  }
  pieces_.clear();
  return grown;
}

Status Results::make_room(const SliceStreams& streams, const std::function<void()>& flush) {
  if (used_ > staging_->bytes()) {
    flush();
    ITIF_TRY(staging_->grow(2 * used_, staged_, streams));
  }
  if (used_ > host_.bytes()) {
    ITIF_ASSIGN(host_, Pinned::allocate(staging_->bytes()));
  }
  staged_ = used_;
  return {};
}

cudaError_t Results::copy(cudaStream_t stream) {
  if (staged_ == 0) return cudaSuccess;
  return cudaMemcpyAsync(host_.data(), staging_->data(), staged_, cudaMemcpyDeviceToHost, stream);
}

void Results::deliver() const {
  for (const Target& target : targets_)
    std::memcpy(target.to, host_.data() + target.at, target.bytes);
}

void Results::clear() noexcept {
  pieces_.clear();
  targets_.clear();
  staged_ = used_ = 0;
}

}  // namespace itif::device::cuda
