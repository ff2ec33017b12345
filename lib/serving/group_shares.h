// Divides a device among its groups. A group has the share that control has set. Groups without a
// set share divide the rest by their weights or, if tuned, by weights and loads; a thread of this
// object then decides twice a second (execution/slice_tuner.h).
//
// A device that divides its time gives the time of idle groups to the others by itself. One that
// divides its multiprocessors does not: there, a group that has had no work for a second lends its
// part to the groups that have, in proportion to their parts, until it works again. A tuned group
// keeps its demand meanwhile. All tuned groups borrow what none of them asks for.
//
// Groups with CPUs of their own divide those in the same way, but are not tuned.
//
// Only groups on devices that can be divided (DeviceInfo::division) take part. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "execution/idle_watch.h"
#include "execution/slice_tuner.h"

namespace itif::serving {

class GroupShares {
 public:
  struct Options {
    bool tunes = false;  // parts follow the loads; else the weights alone
    // For tuned groups.
    slice::UnmetDemands unmet_demands = slice::UnmetDemands::kEqual;
    uint64_t hold_down_ns = 2'000'000'000;  // a changed share stays for this long
  };
  // `clock` outlives the object.
  GroupShares(const Clock& clock, const Options& options);
  ~GroupShares();
  GroupShares(const GroupShares&) = delete;
  GroupShares& operator=(const GroupShares&) = delete;

  struct Entry {
    uint32_t set_percent = 0;  // by control; 0: not set
    uint32_t weight = 1;       // at least 1; without effect while set_percent is not 0
    double knee_percent = 0;   // as set_knee(); a tuned group starts with it
    // The group has no tenants yet. Until begin(), it has the least share, and the other groups
    // keep their shares.
    bool yields = false;
    // CPUs that only groups with the same set compute on; empty: the CPUs that remain.
    std::vector<unsigned> own_cpus = {};
  };
  // Adds a group and gives all groups their new shares. The stage outlives its entry.
  // REQUIRES: no such number.
  void add(uint16_t number, execution::GroupStage& stage, const Entry& entry);
  // Gives a group that yields its share. An unknown number is ignored.
  void begin(uint16_t number);
  // The object no longer uses the stage when this returns. An unknown number is ignored.
  void remove(uint16_t number);
  // Changes Entry::own_cpus. An unknown number is ignored.
  void set_own_cpus(uint16_t number, const std::vector<unsigned>& cpus);
  // Sets or clears (0) a group's share. An unknown number is ignored.
  void set(uint16_t number, uint32_t percent);
  // Changes Entry::weight. An unknown number is ignored.
  void set_weight(uint16_t number, uint32_t weight);
  // Gives a group exactly this share until end_measuring(), without lent parts, to measure it.
  // Meanwhile loads change no share, and on a device that divides its processors, the other groups
  // have no part of their own and compute on all processors. An unknown number is ignored.
  // REQUIRES: percent > 0.
  void measure(uint16_t number, uint32_t percent);
  // Gives a measured group the share that it had. Loads of the meantime do not count.
  void end_measuring(uint16_t number);
  // Gives a group its knee, in percent; 0: unknown. A tuned group never asks for more. An unknown
  // number is ignored.
  void set_knee(uint16_t number, double percent);
  // Gives a group its tightest latency objective; 0: none. An unknown number is ignored.
  void set_objective(uint16_t number, uint64_t slo_ns);

  struct Share {
    double percent = 100;  // of the device while all its groups compute
    double demand = 0;     // percent that the group asks for; 0: it is not tuned
    uint32_t weight = 1;
  };
  Share share(uint16_t number) const;

 private:
  struct Group : Entry {
    uint16_t number;
    execution::GroupStage* stage;
    uint64_t slo_ns = 0;
    // Its share unless it is tuned: the set one, or its part of what is left.
    double part_percent = 0;
    execution::IdleWatch idle = {};
    double measured_percent = 0;  // 0: it is not being measured
  };

  Group* find(uint16_t number);
  static bool is_measured(const Group& group) noexcept;
  // Returns true if the tuner decides about the group's share.
  bool is_tuned(const Group& group) const noexcept {
    return tunes_ && group.set_percent == 0 && !group.yields && group.own_cpus.empty();
  }
  // The functions below: REQUIRE mutex_.
  void divide();
  void divide(const std::vector<unsigned>& own_cpus);
  // Returns the part of a group of weight 1, in percent, if these CPUs' groups without a set share
  // divide `percent` by their weights, with at least kLeastPercent each.
  double part_per_weight(const std::vector<unsigned>& own_cpus, double percent) const noexcept;
  double percent_of(const Group& group) const noexcept;
  static slice::GroupTerms terms_of(const Group& group) noexcept {
    return {.weight = static_cast<double>(group.weight),
            .knee_percent = group.knee_percent,
            .slo_ns = group.slo_ns};
  }
  void set_terms(const Group& group);
  void give() noexcept;
  // Returns true if the device divides its processors and another of its groups is measured.
  bool is_beside_measured(const Group& group) const noexcept;
  void look_for_idle_groups(uint64_t now_ns) noexcept;
  uint64_t period_ns() const noexcept;
  void run();

  const Clock& clock_;
  const bool tunes_;
  mutable std::mutex mutex_;
  std::condition_variable ends_;
  bool is_ending_ = false;
  std::vector<Group> groups_;
  execution::SliceTuner tuner_;
  std::thread thread_;
};

}  // namespace itif::serving
