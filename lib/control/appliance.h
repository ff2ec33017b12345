// The running appliance, as the control server changes it. lib/serving's tenant service implements
// the interface; tests implement a fake. The control server's job thread makes all calls, one at
// a time, except those marked "any thread". No call throws.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/group_settings.h"
#include "tenant/record.h"

namespace itif::control {

// Reports the stage of a long operation and its fraction done, 0 to 1.
using Progress = std::function<void(const std::string& stage, double fraction)>;

class Appliance {
 public:
  virtual ~Appliance() = default;

  // admit(), admit_listed(), update() and moves to another device note in the listed record what
  // each loaded version's files hold (Version::contents). A version that serves, and whose files
  // hold something else when it is loaded again, is checked with its samples and gets a new number
  // (renumber_version()). update() and admit() refuse changed files of another version that is to
  // serve again.
  //
  // admit(), admit_listed() and update() note in the listed record into which group they loaded
  // each version (Version::placement). A version without a group of the tenant's choice is
  // loaded into that group again; one that was in none joins the group of the tenant's other model
  // if it fits there, else the first group that it fits, else a new one.

  // Lists tenants whose models are not loaded; their requests are verified and refused with
  // not_admitted. `failure` says why there is no model; empty: it is about to be loaded. If a
  // tenant is already listed, only its record is replaced. Logs tenants beyond kMaxTenants and
  // leaves them out. REQUIRES: none of them is loaded.
  virtual void expect(const std::vector<tenant::Record>& records, const std::string& failure) = 0;
  // Loads the model of a new or listed tenant while others serve, then accepts its traffic. A new
  // tenant is listed as loading meanwhile. On error a new tenant is not listed, and a listed one is
  // failed. Errors: kAlreadyExists (it is loaded), kUnavailable (cancelled: a listed tenant stays
  // loading), those of the load.
  virtual Status admit(const tenant::Record& record, const Progress& progress) = 0;
  // As admit() for tenants that are listed, several at the same time. Passes the result of each to
  // `done` as soon as it is there, in any order.
  using OnAdmitted = std::function<void(const tenant::Record&, const Status&)>;
  virtual void admit_listed(const std::vector<tenant::Record>& records, const OnAdmitted& done) = 0;
  // Applies the record's new settings and versions to a loaded tenant. Loads the active version and
  // the canary, as far as `loads` says, while the old ones serve, then swaps them: requests whose
  // first piece arrived before the swap are answered by the old ones. On error nothing has changed.
  // Versions that were loaded stay loaded until settle(), so that update() with the old record
  // loads nothing. Errors: kNotFound, kCorrupt (changed files), those of the load.
  enum class Loads : uint8_t {
    kActive,   // the active version, if it is not loaded
    kMissing,  // also the canary, if it is not
    kAll,      // both, also if they are
  };
  virtual Status update(const tenant::Record& record, Loads loads, const Progress& progress) = 0;
  // Frees the versions that the record no longer needs, after their last requests. The previous
  // version stays loaded until another load needs its memory. Does nothing for an unknown tenant.
  virtual void settle(uint32_t id) = 0;
  // Stops accepting requests, waits for those in flight for at most timeout_ns, frees the tenant's
  // slots. Slots that are still in use then are freed by a later call. The tenant may be loaded or
  // only listed. Errors: kNotFound.
  virtual Result<tenant::Removal> remove(uint32_t id, uint64_t timeout_ns) = 0;
  // Frees slots that update(), settle() or remove() left in use. Called while nothing else is done.
  virtual void free_unused() {}
  // Measures costs that groups could not measure when they were made. Called while nothing else is
  // done; returns soon after an operation waits.
  virtual void measure_missing() {}
  // `is_wanted` returns true while an operation waits: measurements that nobody has asked for then
  // end, and go on in measure_missing(). Any thread calls it. Called once, before all others.
  virtual void yield_when(std::function<bool()> /*is_wanted*/) {}
  // Returns all tenants, in order of their ids. Any thread.
  virtual std::vector<tenant::Info> tenants() const = 0;
  // Any thread.
  virtual std::optional<tenant::Info> tenant(const tenant::Ref& ref) const = 0;
  // Returns the figures of a tenant's versions, in any order. A version without figures has not
  // been loaded since the start. Any thread.
  virtual std::vector<tenant::VersionFigures> version_figures(uint32_t id) const = 0;

  // Sets the settings, keyed by group name, of groups that are made later.
  virtual void expect_groups(std::map<std::string, GroupSettings> settings) = 0;
  // Changes the planner from the group's next batch on; may measure GEMM costs first. Returns the
  // previous planner.
  // Errors: kNotFound (group), kInvalidArgument (planner), those of run_profile.
  virtual Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                          const Progress& progress) = 0;
  // Changes the batch policy from the group's next batch on. Waiting requests stay. Returns the
  // previous one. Errors: kNotFound (group), kInvalidArgument (scheduler).
  virtual Result<std::string> set_scheduler(const std::string& group,
                                            const std::string& scheduler) = 0;
  // Changes the group's share of its device, from one of the next launches on. Shares count while
  // several groups compute; those of all groups are scaled down if they exceed 100 %. 0: a part of
  // what the others leave. Returns the previous setting. Errors: kNotFound (group), kUnsupported
  // (its device has no shares).
  virtual Result<uint32_t> set_share(const std::string& group, uint32_t percent) = 0;
  // Gives the group CPUs of its own, ascending: only groups with the same set compute on them.
  // Empty: it shares the CPUs that no group has for itself. Groups whose CPUs change continue on
  // the new ones after their running batches. Returns the previous setting. Errors: kNotFound
  // (group), kInvalidArgument (no CPU of the executors, overlaps another group's, or leaves none
  // for the groups without), kResourceExhausted.
  virtual Result<std::vector<unsigned>> set_cpus(const std::string& group,
                                                 const std::vector<unsigned>& cpus) = 0;
  // Changes the group's weight, 1 to kMaxGroupWeight: groups without a set share divide what the
  // others leave in proportion to it, or to demands times it. Returns the previous one. Errors:
  // kNotFound (group), kUnsupported (its device has no shares).
  virtual Result<uint32_t> set_weight(const std::string& group, uint32_t weight) = 0;
  // Measures the cost of the group's GEMMs while the group serves.
  // Errors: kNotFound, kUnsupported, kUnavailable.
  virtual Status run_profile(const std::string& group, const Progress& progress) = 0;

  // Measures the group's throughput by its share of the device while the group serves; requests of
  // this and other groups take longer meanwhile. Its share is then as before.
  // Errors: kNotFound, kUnsupported (the device has no shares, or the group generates),
  // kUnavailable.
  virtual Status measure_knee(const std::string& group, const Progress& progress) = 0;

  // Moves the tenants of a failed device to the fallback device. A tenant that cannot move is
  // failed. Errors: some could not be moved.
  virtual Status leave_failed_device(const Progress& progress) = 0;
  // Restarts the device while the fallback serves, then moves the tenants back to it.
  // Errors: kUnsupported (the device needs no reset), kInternal.
  virtual Status reset_device(const Progress& progress) = 0;

  // Refuses new requests with kDraining and answers those already accepted. Returns when none is in
  // flight or after timeout_ns, with the number still in flight. Any thread.
  virtual uint64_t drain(uint64_t timeout_ns) = 0;
  virtual void resume_from_drain() = 0;
  // Ends running calls early, for a shutdown: a load fails with kUnavailable, a drain in progress
  // returns, a removal leaves the slot occupied. Any thread.
  virtual void cancel() noexcept = 0;
};

}  // namespace itif::control
