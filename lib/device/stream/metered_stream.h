// Counts and times the launches of another stream. Profilers wrap a stream in one; serving pays
// nothing.
//
// A launch is one piece of work that a device starts: a CUDA kernel, or on the host one run of the
// thread pool. An operator counts as one launch, with two exceptions. A sequential GEMM counts one
// per range, and a batched GEMM one per shape. GEMMs launched together count as if launched
// alone, on any device. The extra GPU launch that adds a GEMM's bias or activation is not counted.
//
// call_ns is the time that calls take. On the host, which runs launches synchronously, it covers
// the work. On an asynchronous device it covers only the launching; with Times::kOnDevice each
// operator finishes before its call returns.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "base/clock.h"
#include "device/device.h"

namespace itif::device {

struct OperatorFigures {
  const char* name = "";
  uint64_t launches = 0;
  uint64_t call_ns = 0;    // time of the host
  uint64_t device_ns = 0;  // with Times::kOnDevice, if the device measures it
};

class MeteredStream final : public Stream {
 public:
  enum class Times : bool {
    kCalls,
    // Records and waits for each operator separately, so that nothing overlaps. Call time covers
    // the launch, its plan's copy and two events. A GEMM's bias is launched with the GEMM instead
    // of being fused into the next launch, and CUDA graphs are off. On an idle device, device time
    // includes the launching.
    kOnDevice
  };
  // `clock` outlives the stream. REQUIRES: with kOnDevice, `stream` has no pending event.
  MeteredStream(std::unique_ptr<Stream> stream, const Clock& clock, Times times = Times::kCalls);

  // Figures since the last clear(): by operator and in total. Copies to the
  // host and synchronize() are not counted.
  std::span<const OperatorFigures> operators() const { return figures_; }
  OperatorFigures of(std::string_view name) const;
  OperatorFigures total() const;
  void clear();

  void attach_thread() override { stream_->attach_thread(); }
  void dispatch(kernels::Operator op) override;
  void copy_to_host(const void* source, size_t bytes, void* target) override;
  void end_inputs() override {
    if (!waits_) stream_->end_inputs();
  }
  void end_graph_segment() override { stream_->end_graph_segment(); }
  void begin_step() override { stream_->begin_step(); }
  Status warm_up() override;
  Graphs graphs() const noexcept override { return stream_->graphs(); }
  uint64_t refused_gemms() const noexcept override { return stream_->refused_gemms(); }
  Event record() override;
  bool is_done(Event event) const noexcept override { return waits_ || stream_->is_done(event); }
  bool inputs_read(Event event) const noexcept override {
    return waits_ || stream_->inputs_read(event);
  }
  Completion wait(Event event) override;
  Status synchronize() override;

 private:
  // Waits for `event` of stream_. Returns its time on the device.
  uint64_t finish(Event event);

  std::unique_ptr<Stream> stream_;
  const Clock& clock_;
  const bool waits_;
  std::array<OperatorFigures, kernels::kNumOperators> figures_;
  // With Times::kOnDevice: completion of the operators since the last event, and of pending events.
  Completion since_event_;
  std::array<Completion, kMaxPending> completions_;
  Event next_event_ = 0;
};

}  // namespace itif::device
