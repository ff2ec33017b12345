#include "device/cuda/slices/slices.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace itif::device::cuda {

cudaError_t SliceStreams::enter() const noexcept {
  if (!has_own_context) return cudaSuccess;
  return context == nullptr ? cudaSetDevice(ordinal) : context->enter();
}

SliceStreams::~SliceStreams() {
  const ContextScope scope(context.get());
  in_context.reset();
  left = {};
  for (cudaStream_t stream : streams)
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
}

Result<std::unique_ptr<Slices>> Slices::open(int ordinal, SliceOptions options) {
  std::unique_ptr<Slices> made(new Slices(ordinal, std::move(options)));
  ITIF_ASSIGN(made->ladder_, SliceLadder::open(ordinal, made->options_));
  return made;
}

SliceKind Slices::kind() const {
  const std::lock_guard lock(mutex_);
  return ladder_ ? ladder_->kind() : SliceKind::kNone;
}
uint32_t Slices::num_steps() const {
  const std::lock_guard lock(mutex_);
  return ladder_ ? ladder_->num_steps() : 0;
}
std::vector<uint32_t> Slices::processor_counts() const {
  const std::lock_guard lock(mutex_);
  return ladder_ ? ladder_->processor_counts() : std::vector<uint32_t>{};
}

void Slices::set(SliceUser& user, double percent) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, &user, &Entry::user);
  if (found == entries_.end())
    entries_.push_back({.user = &user, .percent = percent});
  else if (std::exchange(found->percent, percent) == percent)
    return;
  place();
}

void Slices::remove(const SliceUser& user) noexcept {
  const std::lock_guard lock(mutex_);
  if (std::erase_if(entries_, [&](const Entry& one) { return one.user == &user; }) > 0) place();
}

Result<std::unique_ptr<SliceStreams>> Slices::make_streams(uint32_t slice) const {
  const std::lock_guard lock(mutex_);
  if (!ladder_) return fail(Code::kUnavailable, "the GPU has refused its reset");
  auto made = std::make_unique<SliceStreams>();
  made->ordinal = ordinal_;
  made->slice = slice;
  made->processors = ladder_->processors(slice);
  made->has_own_context = ladder_->kind() == SliceKind::kMps;
  made->context = ladder_->context(slice);
  (void)cudaSetDevice(ordinal_);  // any thread may be the first to need a stream
  const ContextScope scope(made->context.get());
  ITIF_ASSIGN(made->left, StreamEvent::make(cudaEventDisableTiming));
  for (cudaStream_t& stream : made->streams) {
    ITIF_ASSIGN(stream, ladder_->make_stream(slice));
  }
  return made;
}

void Slices::place() noexcept {
  if (!ladder_ || ladder_->num_steps() == 0) return;
  std::vector<double> percents;
  for (const Entry& one : entries_)
    if (one.percent > 0) percents.push_back(one.percent);
  const std::vector<uint32_t> slices = ladder_->slices_of(percents);
  auto next = slices.begin();
  for (Entry& one : entries_) {
    const uint32_t slice = one.percent > 0 ? *next++ : 0;
    if (std::exchange(one.slice, slice) != slice) one.user->use_slice(slice);
  }
}

void Slices::close() noexcept {
  const std::lock_guard lock(mutex_);
  CHECK(entries_.empty());
  ladder_.reset();
}

void Slices::open_again() noexcept {
  const std::lock_guard lock(mutex_);
  auto opened = SliceLadder::open(ordinal_, options_);
  if (!opened) {
    log::warning("the GPU is not divided after its reset: {}", opened.error().message);
    opened = SliceLadder::open(
        ordinal_, {.wanted = std::string(name_of(SliceKind::kNone)), .needs_one_context = {}});
  }
  ladder_ = std::move(*opened);
}

}  // namespace itif::device::cuda
