// A stream of the simulated device. Launches take no time of the thread; an event is done when the
// device's timeline has reached its end. wait() and synchronize() advance the clock to it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "device/sim/next_tokens.h"
#include "device/sim/operator_costs.h"
#include "device/sim/sim_host.h"
#include "device/sim/timeline.h"

namespace itif::device {

class SimStream final : public Stream {
 public:
  // All references outlive the stream. `num_streams` counts the streams that exist. `act_bytes`: of
  // an activation, if marks are passed on; 0: they are not.
  SimStream(Timeline& timeline, size_t lane, OperatorCosts& costs, uint32_t& num_streams,
            size_t act_bytes, const SimHost& host);
  ~SimStream() override;

  void attach_thread() override {}
  // 0: all of the device.
  void set_percent(double percent) noexcept override { part_ = percent > 0 ? percent / 100 : 1; }
  void dispatch(kernels::Operator op) override;
  void copy_to_host(const void* source, size_t bytes, void* target) override;
  void end_inputs() override { inputs_ns_ = pending_ns_; }
  Event record() override;
  bool is_done(Event event) const noexcept override;
  bool inputs_read(Event event) const noexcept override;
  Completion wait(Event event) override;
  Status synchronize() override;

 private:
  struct Batch {
    Timeline::Span span;
    uint64_t device_ns = 0;
  };
  Batch schedule();
  Status status() const;
  const Batch& batch_of(Event event) const noexcept { return batches_[event % kMaxPending]; }

  Timeline& timeline_;
  const size_t lane_;
  double part_ = 1;  // of the device's multiprocessors
  OperatorCosts& costs_;
  uint32_t& num_streams_;
  const size_t act_bytes_;
  NextTokens next_tokens_;
  const SimHost host_;
  double pending_ns_ = 0;  // of the launches since the last event
  double inputs_ns_ = -1;  // of those up to end_inputs(); negative: not called
  double copy_ns_ = 0;     // of the inputs that the host collects for these launches
  Event next_event_ = 0;
  Event waited_ = 0;  // events before it have been waited for
  std::array<Batch, kMaxPending> batches_;
};

}  // namespace itif::device
