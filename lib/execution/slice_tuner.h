// Tunes the shares of the groups of one device. Once a period it reads the counters of each group's
// stage, and lets slice/slice_control.h decide. After each change the owner gives the stages their
// shares, by given_percent() and what idle groups lend, and calls note_given().
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020, sections 3.2.1 to 3.2.3.
//
// One owner thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "execution/group_stage.h"
#include "slice/slice_control.h"

namespace itif::execution {

struct SliceTunerOptions {
  slice::ControlOptions control = {};
  uint64_t period_ns = 500'000'000;
  // Lends what no group asks for to all groups, in proportion to their shares, until one asks for
  // it.
  bool lends = true;
};

class SliceTuner {
 public:
  explicit SliceTuner(const SliceTunerOptions& options)
      : options_(options), control_(options.control) {}

  // Adds a group under an id of the caller's; all shares follow. The stage outlives the group's
  // entry. Errors: those of SliceControl::add().
  Status add(uint32_t id, GroupStage& stage, const slice::GroupTerms& terms, uint64_t now_ns);
  // Gives a group other terms. Errors: those of SliceControl::set_terms().
  Status set_terms(uint32_t id, const slice::GroupTerms& terms, uint64_t now_ns);
  // Removes a group; the others' shares follow. Errors: kNotFound.
  Status remove(uint32_t id, uint64_t now_ns);

  // Changes the part of the device that all groups together have; all shares follow.
  void set_device_percent(double percent, uint64_t now_ns) noexcept;

  // Ignores the loads up to now: the next observation begins here.
  void skip(uint64_t now_ns) noexcept;
  // Observes and decides if a period has passed. Returns true if any share has changed.
  bool tick(uint64_t now_ns) noexcept;
  // Returns when tick() has work next; UINT64_MAX: there is no group.
  uint64_t next_ns() const noexcept { return groups_.empty() ? UINT64_MAX : next_ns_; }

  // A group's share, the same with lent parts, and the share that it asks for, in percent; 0: no
  // such group.
  double share_percent(uint32_t id) const noexcept { return control_.share_percent(id); }
  double given_percent(uint32_t id) const noexcept;
  double demand_percent(uint32_t id) const noexcept { return control_.demand_percent(id); }

  // Notes that a group computes on `percent` of the device from now on, until the next call. An
  // unknown id is ignored.
  void note_given(uint32_t id, double percent) noexcept;

 private:
  struct Reading {
    uint64_t served = 0, refused = 0, waiting = 0;  // requests
    uint64_t with_objective = 0, latency_ppm = 0, latency_ppm_squared = 0;
    uint64_t busy_ns = 0, turn_wait_ns = 0;
    uint64_t batches = 0, tokens = 0;
    uint64_t asks_for_more = 0;
    slice::Ask last_ask = slice::Ask::kNothing;
    uint64_t tokens_squared = 0, tokens_us = 0, us_squared = 0;  // Σ over batches
  };
  struct Group {
    uint32_t id;
    GroupStage* stage;
    uint64_t read_ns;
    Reading last;
    double given_percent = 0;
    double used_percent = 0;  // of the device, on which the group computes
  };

  // Returns what batch control has asked for since `last`.
  static slice::Ask ask_since(const Reading& last, const Reading& now) noexcept;
  static Reading read(const GroupStage& stage) noexcept;
  void observe(Group& group, uint64_t now_ns) noexcept;
  void divide() noexcept;

  const SliceTunerOptions options_;
  slice::SliceControl control_;
  std::vector<Group> groups_;
  uint64_t next_ns_ = 0;
};

}  // namespace itif::execution
