#include "device/cuda/slices/stream_slices.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"

namespace itif::device::cuda {

Result<std::unique_ptr<StreamSlices>> StreamSlices::make(std::shared_ptr<Slices> slices,
                                                         MakeInContext make_in_context) {
  std::unique_ptr<StreamSlices> made(
      new StreamSlices(std::move(slices), std::move(make_in_context)));
  ITIF_ASSIGN(auto streams, made->make_streams(0));
  made->here_ = streams.get();
  made->wanted_ = streams.get();
  made->all_.push_back(std::move(streams));
  return made;
}

StreamSlices::~StreamSlices() {
  slices_->remove(*this);
  if (here_ != nullptr && here_->has_own_context) (void)cudaSetDevice(here_->ordinal);
}

Result<std::unique_ptr<SliceStreams>> StreamSlices::make_streams(uint32_t slice) const {
  ITIF_ASSIGN(auto made, slices_->make_streams(slice));
  if (!all_.empty() && made->context == nullptr) {
    made->in_context = all_.front()->in_context;
    return made;
  }
  const ContextScope scope(made->context.get());
  ITIF_ASSIGN(made->in_context, make_in_context_());
  return made;
}

std::vector<uint32_t> StreamSlices::other_counts() const {
  if (here_->has_own_context) return {};
  std::vector<uint32_t> counts = slices_->processor_counts();
  if (!counts.empty()) counts.push_back(0);
  std::erase(counts, here_->processors);
  return counts;
}

void StreamSlices::set_percent(double percent) noexcept {
  slices_->set(*this, percent);
}

void StreamSlices::use_slice(uint32_t slice) noexcept {
  auto found = std::ranges::find_if(all_, [&](const auto& one) { return one->slice == slice; });
  if (found == all_.end()) {
    auto made = make_streams(slice);
    if (!made) {
      log::warning("a group keeps its former slice of the GPU: {}", made.error().message);
      return;
    }
    all_.push_back(std::move(*made));
    found = std::prev(all_.end());
  }
  wanted_.store(found->get(), std::memory_order_release);
}

cudaError_t StreamSlices::move() {
  const SliceStreams* const next = wanted_.load(std::memory_order_acquire);
  cudaError_t error = here_->enter();
  if (error == cudaSuccess) error = here_->left.record(here_->streams[0]);
  if (error == cudaSuccess) error = next->enter();
  if (error == cudaSuccess) error = cudaStreamWaitEvent(next->streams[0], here_->left.get());
  here_ = next;
  ++num_moves_;
  return error;
}

}  // namespace itif::device::cuda
