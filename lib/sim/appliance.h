// The server of a simulation: a worker, the groups' stages and the simulated device, unmodified,
// with the control that itifd's tenant service does between their polls. It has no thread: the
// owner calls poll().
//
// Covered: worker, reassembly, response cache, batch policy, planner, executor, group. Not covered:
// lib/serving's tenant service and lib/control's server, which need threads; add_tenant(),
// remove_tenant() and the move after a device fault do the same steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "device/sim/sim_device.h"
#include "execution/group_stage.h"
#include "execution/idle_watch.h"
#include "execution/slice_tuner.h"
#include "pipeline/figures.h"
#include "pipeline/worker.h"
#include "sim/dpdk_nic.h"
#include "sim/scenario.h"
#include "tenant/record.h"

namespace itif::sim {

class Appliance {
 public:
  // `clock` and `nic` outlive the appliance. Errors: kInvalidArgument (limits, policy, planner),
  // kUnsupported, kNotFound (profile), kResourceExhausted (the device's memory). `tables`: of each
  // group, measured before a restart; empty: measured if the planner needs them.
  using Tables = std::vector<std::shared_ptr<const plan::CostTables>>;
  static Result<std::unique_ptr<Appliance>> create(VirtualClock& clock, Nic& nic,
                                                   const Scenario& scenario, uint64_t seed,
                                                   const Tables& tables = {});
  ~Appliance();

  // Loads the model of record.model_dir into a group of the scenario and publishes the tenant.
  // Errors: those of Group::admit.
  Status add_tenant(const tenant::Record& record, size_t group = 0);
  // Publishes without the tenant; its slot is freed by a later poll(), once its requests have
  // ended. REQUIRES: there is such a tenant.
  void remove_tenant(uint32_t id);
  void remove_all();
  // Publishes another objective of a tenant. REQUIRES: there is such a tenant.
  void set_objective(uint32_t id, uint64_t slo_ns);
  size_t num_tenants() const noexcept { return tenants_.size(); }
  // Tenants that were removed and whose requests have not ended.
  size_t num_leaving() const noexcept { return leaving_.size(); }
  // Breaks the device. Its requests fail; poll() resets it and loads the tenants again once no
  // request is in flight.
  void break_device() noexcept { device_->break_now(); }
  bool is_recovering() const noexcept { return recovering_; }

  // Ends the running batches without a result, as the end of a process would. Only the destructor
  // may follow.
  void stop();

  // Runs one iteration of worker and stages; returns the amount of work done.
  size_t poll();
  // When poll() must run next if nothing arrives; UINT64_MAX: never.
  uint64_t next_poll_ns() noexcept;
  // Returns true if nothing waits, runs or is held.
  bool is_idle() const;

  Tables tables() const;
  const device::SimDevice& device() const noexcept { return *device_; }
  uint64_t busy_ns() const noexcept { return device_->busy_ns() - profiled_ns_; }
  const pipeline::Worker& worker() const noexcept { return *worker_; }
  const runtime::Group& group(size_t index = 0) const noexcept {
    return groups_[index].stage->group();
  }
  uint32_t max_tokens(size_t group = 0) const noexcept { return groups_[group].max_tokens; }
  // Bytes of the device that the groups hold without tenants.
  uint64_t device_bytes_of_groups() const noexcept { return group_bytes_; }
  // Returns a group's part of the device in percent, with lent parts; 0: it has none now. 100 for
  // each group if the device is not divided.
  double share_percent(size_t group) const noexcept;
  // Batches, tokens, …: of all stages so far, also of those that a fault has ended.
  struct Totals {
    uint64_t batches = 0, requests = 0, tokens = 0, rows = 0, tenants = 0, refused = 0;
    uint64_t answered = 0, execute_ns = 0;  // Σ over the answers, of their batches' time
    Totals& operator+=(const Totals& other) noexcept;
  };
  Totals totals() const noexcept;
  Totals totals_of(size_t group) const noexcept;
  // Blocks of the K/V caches: all, used, and reserved for sequences that run. Groups of text
  // encoders have none.
  struct KvFigures {
    uint64_t blocks = 0, used = 0, reserved = 0;
  };
  KvFigures kv() const noexcept;

 private:
  struct Group {
    model::BackboneSpec spec;
    std::shared_ptr<const plan::CostTables> tables;
    std::unique_ptr<execution::GroupStage> stage;
    uint32_t max_tokens = 0;  // of one request
    bool has_slice = false;   // it has its part of the device, and requests
    execution::IdleWatch idle;
    double lent_percent = 0;  // its part, with what idle groups lend it; 0: it has none
    // Without overlap a thread launches a batch and waits for its end before all else.
    bool waits() const noexcept {
      return !stage->overlaps() && stage->num_executing() > 0 && !stage->has_results();
    }
    Totals before;  // of stages that have ended
  };
  struct Served {
    tenant::Record record;
    size_t group = 0;
    uint32_t index = 0, slot = 0;
    uint64_t generation = 0;  // of the snapshot without it, once it leaves
    std::shared_ptr<tenant::Lease> lease;
  };

  Appliance(VirtualClock& clock, Nic& nic, const Scenario& scenario);
  Status make_device();
  Status make_worker(uint64_t seed);
  Status make_stage(size_t index);
  Status profile(size_t index);
  Status load(Served& tenant);
  // Divides the device among the groups that have requests now. Returns true if a group has come
  // or gone.
  bool divide_device();
  // Tunes the parts, and lends those of idle groups, if it is time to.
  void update_parts();
  double own_percent(size_t group) const noexcept;
  void give_parts();
  slice::GroupTerms terms_of(size_t index) const;
  uint64_t next_division_ns() const noexcept;
  void publish();
  void release_left();
  void recover();

  VirtualClock& clock_;
  Nic& nic_;
  const Scenario scenario_;
  std::unique_ptr<device::SimDevice> device_;
  uint64_t start_ns_ = 0;  // of the scenario, after profiling
  std::unique_ptr<pipeline::Shared> shared_;
  std::unique_ptr<pipeline::Worker> worker_;
  std::vector<Group> groups_;
  std::unique_ptr<execution::SliceTuner> tuner_;  // null: nothing is tuned
  std::vector<Served> tenants_;
  std::vector<Served> leaving_;
  uint64_t generation_ = 0;
  uint64_t next_look_ns_ = 0;  // for idle groups
  uint64_t group_bytes_ = 0;
  uint64_t profiled_ns_ = 0;  // the device's time that profiling took
  bool recovering_ = false;
};

}  // namespace itif::sim
