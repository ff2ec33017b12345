// The tenants: joins model directories, groups and the workers' snapshot.
//
//   expect: known, and refused with not_admitted until admitted
//   admit:  read the spec → find or make a group → load beside what serves → publish a snapshot
//   update: new settings → publish; a new model → load beside, publish, wait, free the old slot
//   remove: publish without → wait until no worker and no request refers to it → free the slot
//
// Where the device fails, its groups are made again beside on the fallback, their tenants move there and their
// requests after them; the same way back when it has been reset (directory_device.cc).
//
// Changes come from one thread at a time (control's worker); drain(), cancel() and the figures from any.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "device/device.h"
#include "model/tenant_model.h"
#include "pipeline/figures.h"
#include "pipeline/pipeline.h"
#include "plan/cost_tables.h"

namespace itif::pipeline {

struct TenantSettings {
  uint32_t id = 0;
  std::string name;
  std::string model_dir;
  std::string group;  // empty: by the model's architecture
  uint64_t slo_ns = 0;
  uint32_t weight = 1;
  uint32_t quota_rps = 0;
  uint8_t auth = 1;  // wire::Auth
  tenant::State state = tenant::State::kServing;
  tenant::Key key;
  tenant::Key previous_key;
  bool has_previous_key = false;
};

// What is known of a tenant.
struct TenantEntry {
  TenantSettings settings;
  bool loaded = false;   // else it is only expected, and group to weight_bytes are empty
  std::string group;     // its group's name
  std::string backbone;  // model::describe
  std::string head;      // "classification (3 labels)"
  std::vector<std::string> labels;
  wire::ResultKind default_result = wire::ResultKind::kDefault;
  uint32_t max_tokens = 0;
  uint64_t weight_bytes = 0;  // its own
  uint64_t shared_bytes = 0;  // its group's workspaces
  uint32_t index = 0;
  uint32_t in_flight = 0;  // requests, when list() was called
  TenantFigures before;    // counts of the index when it was given to this tenant
};

struct GroupEntry {
  uint16_t number = 0;  // of the running groups: no two at a time have the same
  std::string name;
  std::string backbone;
  std::vector<std::string> tenant_names;
  uint32_t max_tenants = 0;
  uint64_t weight_bytes = 0;
  uint64_t workspace_bytes = 0;
  uint32_t waiting = 0;    // requests, now
  uint32_t executing = 0;  // requests, now
  uint64_t batches = 0, requests = 0, tokens = 0, rows = 0, tenants = 0, refused = 0, busy_ns = 0;
  std::string planner;
  uint64_t kv_blocks = 0, kv_blocks_used = 0, kv_blocks_reserved = 0;  // 0: it does not generate
  bool keeps_graphs = false;                                           // its device does
  uint64_t graphs = 0, graph_launches = 0;
  bool device_failed = false;
  DType dtype = DType::kF32;  // of its device
  std::string device;         // its kind
};

using OpenDevice = std::function<Result<std::unique_ptr<device::Device>>()>;
// runtime::Group::create, or what a test puts in its place.
using MakeGroup = std::function<Result<std::unique_ptr<runtime::Group>>(
    device::Device&, const model::BackboneSpec&, const runtime::GroupOptions&)>;

class Directory {
 public:
  // Everything outlives the directory. `executor_cpus`: see lcores.h.
  Directory(Pipeline& pipeline, device::Device& device, const Clock& clock,
            const config::Config& config, std::vector<unsigned> executor_cpus,
            MakeGroup make_group = runtime::Group::create);
  ~Directory();  // stops the groups; REQUIRES: the workers have stopped

  // What computes while the device is out of order, opened when it first is; `on_failure` is called then, by a
  // group's thread, perhaps more than once. Without a fallback, groups of a failed device refuse everything.
  // REQUIRES: before the first tenant.
  void set_fallback(OpenDevice open, std::function<void()> on_failure);
  // Moves the groups whose device has failed to the fallback; until theirs is there, tenants' requests are refused
  // with device_failed. Nothing has failed: nothing happens. Errors: kUnavailable (no fallback, or some tenants
  // could not be loaded: these stay refused).
  Status leave_failed_device(const model::Progress& progress);
  // Moves what serves on the device to the fallback, starts the device anew, and moves everything back, while it
  // serves. Errors: those of Device::reset (all is served by the fallback then) and of loading.
  Status reset_device(const model::Progress& progress);
  // Whether the fallback computes. Any thread.
  bool uses_fallback() const noexcept { return uses_fallback_.load(); }

  // Tenants that exist and whose models are not loaded: their requests are verified and refused with
  // not_admitted. Replaces the settings of those expected already; leaves out what is beyond
  // kMaxTenants. REQUIRES: none of them is loaded.
  void expect(const std::vector<TenantSettings>& all);
  // Of a new tenant or an expected one, which stays expected on error.
  // Errors: kAlreadyExists (id), those of open_model and Group::admit, kResourceExhausted (groups,
  // tenants), kUnavailable (the group that the settings name has failed).
  Result<TenantEntry> admit(const TenantSettings& settings, const model::Progress& progress);
  // Of a loaded tenant. Errors: kNotFound; with reload those of admit. On error nothing has changed.
  Result<TenantEntry> update(const TenantSettings& settings, bool reload,
                             const model::Progress& progress);
  // Of a loaded or expected tenant. Errors: kNotFound.
  Status remove(uint32_t id);

  // How the batches of a group are laid out from now on, and when a group of that name is made again.
  // Returns the planner before.
  // Errors: kInvalidArgument (planner), kNotFound (no such group), kUnavailable (its tables could not
  // be measured).
  Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                  const model::Progress& progress);
  // For groups to come, by name. REQUIRES: names of planners.
  void expect_planners(std::map<std::string, std::string> planners);
  // What the GEMMs of a group cost, as it has measured or read it. Errors: kNotFound (no such group, or
  // nothing measured). Any thread.
  Result<std::shared_ptr<const plan::CostTables>> profile(const std::string& group) const;
  // Measures it again, between the group's batches. Errors: kNotFound, kUnavailable, those of the device.
  Status run_profile(const std::string& group, const model::Progress& progress);

  // New requests are refused with `draining` from now on; waits until nothing is in flight or the
  // time is up. Returns how many requests were left. Any thread.
  uint64_t drain(uint64_t timeout_ns);
  void resume_from_drain();  // not after cancel()
  // For a shutdown: what runs now ends early. A load fails with kUnavailable; a drain that has begun
  // returns; a slot that is in use stays taken. Any thread.
  void cancel() noexcept { cancelled_.store(true); }
  bool draining() const;
  uint64_t in_flight() const;

  std::vector<TenantEntry> list() const;
  size_t num_loaded() const;
  std::vector<GroupEntry> groups() const;

 private:
  struct Serving {  // a tenant and, if it is loaded, where its model is
    TenantEntry entry;
    uint16_t group = 0;
    uint32_t slot = 0;
    std::shared_ptr<tenant::Lease> lease = std::make_shared<tenant::Lease>();
    uint16_t payload_kinds = 0;
    uint32_t max_payload_bytes = 0;
  };

  Result<Serving> load(const TenantSettings& settings, const model::Progress& progress);
  Result<Serving> load_into(uint16_t group, const TenantSettings& settings,
                            const model::Progress& progress);
  // nullopt: one must be made.
  Result<std::optional<uint16_t>> find_group(const std::string& name,
                                             const model::BackboneSpec& spec) const;
  bool overlaps(runtime::Group& group, const device::Device& device) const;
  Result<uint16_t> start_group(const std::string& name, const model::BackboneSpec& spec,
                               const model::Progress& progress);
  // Serves, but by no planner of its own yet.
  Result<uint16_t> make_group(const std::string& name, const model::BackboneSpec& spec,
                              device::Device& device);
  // directory_device.cc
  device::Device& serving_device() const noexcept;
  Status use_fallback();
  Status move_groups(const device::Device& from, device::Device& to,
                     const model::Progress& progress);
  Status move_group(uint16_t number, device::Device& to, const model::Progress& progress);
  // directory_profile.cc
  Result<uint16_t> number_of(const std::string& group) const;
  void prepare_planner(uint16_t group, const model::Progress& progress);
  Status use_planner(uint16_t group, const std::string& planner);
  Status find_tables(uint16_t group, const model::Progress& progress);
  void use_tables(uint16_t group, plan::CostTables tables);
  Status measure_tables(uint16_t group, const model::Progress& progress);

  void share_cpus();
  void drop_group_if_empty(uint16_t group);
  void leave(Serving serving);
  void unload(const Serving& serving);
  uint64_t publish();
  bool wait_unused(const tenant::Lease& lease, uint64_t generation);
  Serving* find(uint32_t id);
  Result<uint32_t> free_index();
  void give_index(Serving& serving, uint32_t index);

  Pipeline& pipeline_;
  device::Device& device_;
  OpenDevice open_fallback_;
  std::unique_ptr<device::Device> fallback_;  // null: not needed yet
  std::atomic<bool> uses_fallback_{false};
  const Clock& clock_;
  runtime::GroupOptions group_options_;
  GroupStageOptions stage_options_;
  MakeGroup make_group_;
  std::string default_planner_;
  std::string profile_dir_;
  std::string overlap_;                          // auto, on, off
  std::map<std::string, std::string> planners_;  // set by control, by the group's name
  bool busy_ = false;                            // executors spin, while each has a CPU
  size_t num_executor_cpus_;
  // Guards what any thread reads: tenants_ to draining_. Those that only control's worker writes, it
  // reads without.
  mutable std::mutex mutex_;
  std::vector<Serving> tenants_;
  std::vector<Serving> leaving_;                     // published no more, and perhaps still in use
  std::vector<std::unique_ptr<GroupStage>> stages_;  // by group number
  struct Layout {
    std::string planner;
    std::shared_ptr<const plan::CostTables> tables;  // null: not measured
  };
  std::vector<Layout> layouts_;  // by group number
  uint64_t generation_ = 0;
  bool draining_ = false;
  std::atomic<bool> cancelled_{false};
  uint32_t next_index_ = 0;
};

}  // namespace itif::pipeline
