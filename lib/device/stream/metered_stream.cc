#include "device/stream/metered_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace itif::device {
namespace {

// Returns the number of planned calls, else of non-empty ranges, or at most 1 if one call computes
// them all.
uint64_t launches_of(const kernels::GroupedGemm& args) {
  if (!args.schedule.calls().empty()) return args.schedule.calls().size();
  const auto ranges = static_cast<uint64_t>(std::ranges::count_if(
      args.ranges, [](const kernels::RowRange& range) { return range.num_rows > 0; }));
  const kernels::GemmMode mode = args.schedule.mode_of(args.n, args.k);
  const bool is_one_call =
      mode == kernels::GemmMode::kConcurrent || mode == kernels::GemmMode::kPointers;
  return is_one_call ? std::min<uint64_t>(ranges, 1) : ranges;
}
uint64_t launches_of(const kernels::GroupedGemms& args) {
  uint64_t launches = 0;
  for (const kernels::GroupedGemm& one : args.all) launches += launches_of(one);
  return launches;
}
uint64_t launches_of(const kernels::BatchedGemm& args) {
  return args.batches.size();
}
template <class Args>
uint64_t launches_of(const Args&) {
  return 1;
}

}  // namespace

MeteredStream::MeteredStream(std::unique_ptr<Stream> stream, const Clock& clock, Times times)
    : stream_(std::move(stream)), clock_(clock), waits_(times == Times::kOnDevice) {
  if (waits_) stream_->use_graphs(false);
  clear();
}

void MeteredStream::clear() {
  for (size_t i = 0; i < figures_.size(); ++i) figures_[i] = {.name = kernels::kOperatorNames[i]};
}

OperatorFigures MeteredStream::of(std::string_view name) const {
  const auto found = std::ranges::find(figures_, name, &OperatorFigures::name);
  return found == figures_.end() ? OperatorFigures{} : *found;
}

OperatorFigures MeteredStream::total() const {
  OperatorFigures all{.name = "all"};
  for (const OperatorFigures& one : figures_) {
    all.launches += one.launches;
    all.call_ns += one.call_ns;
    all.device_ns += one.device_ns;
  }
  return all;
}

void MeteredStream::dispatch(kernels::Operator op) {
  OperatorFigures& figures = figures_[op.index()];
  const uint64_t launches = std::visit([](const auto* args) { return launches_of(*args); }, op);
  const uint64_t before_ns = clock_.now_ns();
  stream_->dispatch(op);
  const Event event = waits_ ? stream_->record() : 0;  // submits the launch to a GPU
  figures.call_ns += clock_.now_ns() - before_ns;
  figures.launches += launches;
  if (waits_) figures.device_ns += finish(event);
}

uint64_t MeteredStream::finish(Event event) {
  Completion done = stream_->wait(event);
  since_event_.device_ns += done.device_ns;
  if (since_event_.status) since_event_.status = std::move(done.status);
  return done.device_ns;
}

Status MeteredStream::warm_up() {
  return waits_ ? Stream::warm_up() : stream_->warm_up();
}
Stream::Event MeteredStream::record() {
  if (!waits_) return stream_->record();
  completions_[next_event_ % kMaxPending] = std::exchange(since_event_, {});
  return next_event_++;
}
Stream::Completion MeteredStream::wait(Event event) {
  return waits_ ? std::move(completions_[event % kMaxPending]) : stream_->wait(event);
}
Status MeteredStream::synchronize() {
  return waits_ ? std::exchange(since_event_, {}).status : stream_->synchronize();
}

void MeteredStream::copy_to_host(const void* source, size_t bytes, void* target) {
  stream_->copy_to_host(source, bytes, target);
  if (waits_) (void)finish(stream_->record());  // not within the next operator's time
}

}  // namespace itif::device
