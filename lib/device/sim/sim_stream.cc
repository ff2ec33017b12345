#include "device/sim/sim_stream.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "device/sim/row_marks.h"

namespace itif::device {

SimStream::SimStream(Timeline& timeline, size_t lane, OperatorCosts& costs, uint32_t& num_streams,
                     size_t act_bytes, uint64_t batch_overhead_ns)
    : timeline_(timeline),
      lane_(lane),
      costs_(costs),
      num_streams_(num_streams),
      act_bytes_(act_bytes),
      next_tokens_(act_bytes),
      batch_overhead_ns_(batch_overhead_ns) {
  ++num_streams_;
}

SimStream::~SimStream() {
  --num_streams_;
}

void SimStream::dispatch(kernels::Operator op) {
  pending_ns_ += costs_.operator_ns(op, part_);
  if (act_bytes_ > 0) pass_marks(op, act_bytes_);
  next_tokens_.follow(op);
}

void SimStream::copy_to_host(const void* source, size_t bytes, void* target) {
  pending_ns_ += costs_.copy_ns(bytes);
  if (bytes != 0) std::memcpy(target, source, bytes);  // zeros, where nothing was written
}

// Puts the launches since the last event at the end of the device's timeline.
SimStream::Batch SimStream::schedule() {
  const auto total_ns = static_cast<uint64_t>(std::llround(std::exchange(pending_ns_, 0)));
  const double inputs_ns = std::exchange(inputs_ns_, -1);
  const uint64_t read_ns =
      inputs_ns < 0 ? total_ns : static_cast<uint64_t>(std::llround(inputs_ns));
  return {.span = timeline_.add(lane_, total_ns, read_ns, part_), .device_ns = total_ns};
}

Stream::Event SimStream::record() {
  CHECK(next_event_ - waited_ < kMaxPending);
  pending_ns_ += static_cast<double>(batch_overhead_ns_);
  batches_[next_event_ % kMaxPending] = schedule();
  return next_event_++;
}

bool SimStream::is_done(Event event) const noexcept {
  return timeline_.is_broken() || batch_of(event).span.end_ns <= timeline_.now_ns();
}

bool SimStream::inputs_read(Event event) const noexcept {
  return timeline_.is_broken() || batch_of(event).span.inputs_ns <= timeline_.now_ns();
}

Stream::Completion SimStream::wait(Event event) {
  CHECK(event == waited_ && event < next_event_);
  ++waited_;
  if (!timeline_.is_broken()) timeline_.advance_to(batch_of(event).span.end_ns);
  return {.status = status(), .device_ns = batch_of(event).device_ns};
}

Status SimStream::synchronize() {
  CHECK(waited_ == next_event_);
  timeline_.advance_to(schedule().span.end_ns);
  return status();
}

Status SimStream::status() const {
  if (timeline_.is_broken()) return fail(Code::kInternal, "the simulated device is broken");
  return {};
}

}  // namespace itif::device
