// Measures a group's throughput by its share of the device and the size of its batches, from which
// the knee follows (slice/knee.h).
//
// The caller gives the group a share, calls begin(), then step() until it returns false; and so on
// for each share in ascending order. A step is one pass, so that requests are served in between.
//
// On a device that divides its processors, a share takes effect at once, and the fastest of some
// passes counts: noise only adds. On a device that divides its time, a share counts only against
// other streams: a TimeCompetitor needs the rest of the time meanwhile. A pass then runs in many
// turns of unequal waits, so all passes of a while count, once the credit of a stream that was idle
// is spent. Streams of the foreground compute first (device/turn_taking.h). Their time does not
// count.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 2.1.3 and 3.2.3.
//
// Owned by the thread of the stream that it measures on, between begin() and the last step().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "runtime/group.h"
#include "slice/knee_profile.h"

namespace itif::runtime {

class KneeMeter {
 public:
  // Returns the batch sizes to measure, without points: 1, 8 and 32 requests of 64 tokens as far as
  // the group's limits allow; images have all their tokens.
  static std::vector<slice::BatchCurve> batch_sizes(const Group& group,
                                                    const Group::ProfiledWork& work);

  // `work` has launch_pass. The device and the clock outlive the meter.
  KneeMeter(const device::Device& device, const Clock& clock, Group::ProfiledWork work,
            std::vector<slice::BatchCurve> sizes, size_t num_shares);

  // Measures a share from now on. Control's thread.
  void begin(double percent) noexcept;
  // Runs one pass. Returns false if the share is measured, or a pass failed.
  bool step(device::Stream& stream) noexcept;
  double progress() const noexcept;  // 0 … 1
  // REQUIRES: step() has returned false. Errors: those of the device.
  Result<std::vector<slice::BatchCurve>> finish() const;

 private:
  // On a device that divides its processors: passes of each point.
  static constexpr uint32_t kWarmUps = 1, kSamples = 3;
  // On a device that divides its time: the time before each share, in which idle credits are spent,
  // and the least time and passes of each point.
  static constexpr uint64_t kSettleNs = 1'100'000'000;
  static constexpr uint64_t kMeasureNs = 100'000'000;
  static constexpr uint32_t kLeastPasses = 2;

  bool has_settled() const noexcept;
  bool is_measured() const noexcept;
  void add_point();

  const bool divides_time_;
  const Clock& clock_;
  const Group::ProfiledWork work_;
  std::vector<slice::BatchCurve> curves_;
  const size_t num_points_;  // of all shares and batch sizes
  size_t num_measured_ = 0;
  double percent_ = 0;
  size_t curve_ = 0;  // being measured
  // Passes of the point that is being measured.
  uint32_t num_passes_ = 0;
  uint64_t settling_ns_ = 0;
  uint64_t least_ns_ = UINT64_MAX, total_ns_ = 0;
  uint32_t num_counted_ = 0;
  Status status_;
};

// Keeps a device busy that divides its time, on a stream and a thread of its own, until it is
// destroyed. It stands for other groups that need all of their share, and takes its turns in the
// background.
class TimeCompetitor {
 public:
  // `percent`: its share. The device and the clock outlive it. Errors: those of
  // Device::make_stream() and allocate(). REQUIRES: the device divides its time.
  static Result<std::unique_ptr<TimeCompetitor>> start(device::Device& device,
                                                       const device::Share& share,
                                                       const Clock& clock);
  ~TimeCompetitor();

 private:
  TimeCompetitor() = default;
  void run() noexcept;

  std::unique_ptr<device::Buffer> values_;
  std::unique_ptr<device::Stream> stream_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace itif::runtime
