// Decides the shares of all groups of a device. Each group's demand follows its load
// (share_demand.h), and the device is divided by these demands (max_min.h).
//
// - A group keeps a changed share for hold_down_ns. If a group is added, removed, or gets other
//   terms, the device is divided again immediately, as in the paper.
// - A change of less than a threshold is made only if another group needs the room.
// - The sum of shares never exceeds the device.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 3.2.1 to 3.2.3.
//
// Reads no clock and knows no device: time and figures are arguments. One owner thread. Allocates
// only when groups are added.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "slice/max_min.h"
#include "slice/share_demand.h"

namespace itif::slice {

struct ControlOptions {
  DemandOptions demand = {};
  UnmetDemands unmet_demands = UnmetDemands::kProportional;
  double device_percent = 100;  // of the device, for all groups together
  uint64_t hold_down_ns = 10'000'000'000;
  double least_change = 0.05;  // of the group's share
};

struct GroupTerms {
  double weight = 1;        // above 0
  double knee_percent = 0;  // the share past which throughput hardly rises; 0: unknown
  uint64_t slo_ns = 0;      // latency objective; 0: none
};

class SliceControl {
 public:
  explicit SliceControl(const ControlOptions& options) : options_(options) {}

  // Adds a group under an id of the caller's, and divides the device again. Errors: kAlreadyExists:
  // the id. kInvalidArgument: a weight or a knee out of range. kResourceExhausted: the least shares
  // of so many groups exceed the device.
  Status add(uint32_t id, const GroupTerms& terms, uint64_t now_ns);
  // Gives a group other terms, and divides again. Errors: kNotFound; kInvalidArgument, as add().
  Status set_terms(uint32_t id, const GroupTerms& terms, uint64_t now_ns);
  // Removes a group, and divides what it had. Errors: kNotFound.
  Status remove(uint32_t id, uint64_t now_ns);

  // Changes the part of the device that all groups together have, and divides again. REQUIRES: it
  // has room for the least shares of all groups.
  void set_device_percent(double percent, uint64_t now_ns) noexcept;

  // Notes a period of a group. An unknown id is ignored: the group may have gone.
  void observe(uint32_t id, const Observation& observation) noexcept;
  // Divides the device again, within the hold-downs. Returns true if any share has changed.
  bool decide(uint64_t now_ns) noexcept;

  // Returns a group's share and its demand, in percent; 0: no such group.
  double share_percent(uint32_t id) const noexcept;
  double demand_percent(uint32_t id) const noexcept;
  // Returns a group's objective; 0: it has none, or there is no such group.
  uint64_t slo_ns(uint32_t id) const noexcept;
  size_t num_groups() const noexcept { return groups_.size(); }
  double device_percent() const noexcept { return options_.device_percent; }

 private:
  struct Group {
    uint32_t id;
    double weight;
    ShareDemand demand;
    double share_percent = 0;
    uint64_t held_until_ns = 0;
  };

  const Group* find(uint32_t id) const noexcept;
  // Divides by the present demands, without regard to hold-downs. `joined`: a group that has no
  // share yet.
  void divide_now(const Group* joined, uint64_t now_ns) noexcept;
  // Sets targets_ to the division by the present demands.
  void set_targets() noexcept;
  // True if the group may change, and its target is more than its share by at least the threshold.
  bool can_grow(size_t index, uint64_t now_ns) const noexcept;
  // Moves the groups that may change to smaller targets. Changes of less than `least_change` of the
  // share are not made. Returns true if any share has changed.
  bool shrink(double least_change, uint64_t now_ns) noexcept;
  // Moves the groups that can grow towards their targets. If there is too little room, each gets
  // the same part of its growth. Returns true if any share has changed.
  bool grow(uint64_t now_ns) noexcept;
  // Moves a group to a share, and begins its hold-down.
  void move(Group& group, double percent, uint64_t now_ns) noexcept;
  double free_percent() const noexcept;
  // The sum of all growth towards the targets.
  double growth_percent(uint64_t now_ns) const noexcept;

  ControlOptions options_;
  std::vector<Group> groups_;
  std::vector<Demand> demands_;  // by index of the group, as the targets
  std::vector<double> targets_;
};

}  // namespace itif::slice
