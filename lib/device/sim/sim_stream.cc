#include "device/sim/sim_stream.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "device/sim/row_marks.h"

namespace itif::device {
namespace {

// Returns the payload bytes that a gather reads; nullopt: the operator is none.
std::optional<size_t> gathered_bytes(kernels::Operator op) noexcept {
  size_t bytes = 0;
  if (const auto* ids = std::get_if<const kernels::GatherIds*>(&op)) {
    for (const kernels::IdPiece& piece : (*ids)->pieces)
      bytes += size_t{piece.num_ids} * piece.id_bytes;
    return bytes;
  }
  if (const auto* patches = std::get_if<const kernels::GatherPatches*>(&op)) {
    for (const kernels::ImagePixels& image : (*patches)->images)
      for (const BytePiece& piece : image.pieces) bytes += piece.bytes;
    return bytes;
  }
  return std::nullopt;
}

}  // namespace

SimStream::SimStream(Timeline& timeline, size_t lane, OperatorCosts& costs, uint32_t& num_streams,
                     size_t act_bytes, const SimHost& host)
    : timeline_(timeline),
      lane_(lane),
      costs_(costs),
      num_streams_(num_streams),
      act_bytes_(act_bytes),
      next_tokens_(act_bytes),
      host_(host) {
  ++num_streams_;
}

SimStream::~SimStream() {
  --num_streams_;
}

void SimStream::dispatch(kernels::Operator op) {
  const auto bytes = host_.collects_inputs ? gathered_bytes(op) : std::nullopt;
  if (bytes) copy_ns_ += costs_.collect_ns(*bytes);
  // A gather of collected inputs reads the device's memory: about a launch.
  pending_ns_ += bytes ? costs_.copy_ns(0) : costs_.operator_ns(op, part_);
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
  const Timeline::Work work = {
      .lane = lane_,
      .part = part_,
      .copy_ns = static_cast<uint64_t>(std::llround(std::exchange(copy_ns_, 0))),
      .inputs_ns = read_ns,
      .total_ns = total_ns,
      .notice_ns = host_.notice_ns};
  return {.span = timeline_.add(work), .device_ns = total_ns};
}

Stream::Event SimStream::record() {
  CHECK(next_event_ - waited_ < kMaxPending);
  pending_ns_ += static_cast<double>(host_.batch_overhead_ns);
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
