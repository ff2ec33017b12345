// The tenant service: loads models into groups and publishes the workers' snapshot of tenants.
//
//   expect: the tenant is known, but its requests are refused with not_admitted until admit()
//   admit:  read the spec → find or create a group → load the model while the group serves others →
//           publish a snapshot
//   update: new settings → publish; a new model → load it into a new slot, publish, wait until the
//           old slot is unused, free it
//   remove: publish without the tenant → wait until no worker and no request refers to it → free
//           its slot
//
// If the device fails, its groups are created again on the fallback device, their tenants move
// there, and requests follow. After a reset they move back in the same way (directory_device.cc).
//
// Threads: one thread at a time makes changes (control's worker). Any thread may call drain(),
// cancel() and the functions that return figures.
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
#include "runtime/make_group.h"

namespace itif::serving {

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

// A tenant and its state.
struct TenantInfo {
  TenantSettings settings;
  bool loaded = false;   // false: only expected; group to weight_bytes are empty
  std::string group;     // its group's name
  std::string backbone;  // model::describe
  std::string head;      // "classification (3 labels)"
  std::vector<std::string> labels;
  wire::ResultKind default_result = wire::ResultKind::kDefault;
  uint32_t max_tokens = 0;
  uint64_t weight_bytes = 0;  // of the tenant's own weights
  uint64_t shared_bytes = 0;  // of its group's workspaces
  uint32_t index = 0;
  uint32_t in_flight = 0;          // requests at the time of list()
  pipeline::TenantFigures before;  // the index's figures when this tenant received the index
};

struct GroupInfo {
  uint16_t number = 0;  // unique among the running groups
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
  uint64_t kv_blocks = 0, kv_blocks_used = 0, kv_blocks_reserved = 0;  // 0: no generation
  bool keeps_graphs = false;                                           // its device captures graphs
  uint64_t graphs = 0, graph_launches = 0;
  bool device_failed = false;
  DType dtype = DType::kF32;  // the device's compute type
  std::string device;         // the device's kind
};

using OpenDevice = std::function<Result<std::unique_ptr<device::Device>>()>;
// runtime::make_group, or a test's replacement.
using MakeGroup = std::function<Result<std::unique_ptr<runtime::Group>>(
    device::Device&, const model::BackboneSpec&, const runtime::GroupOptions&)>;

class TenantService {
 public:
  // All references outlive this object. `executor_cpus`: see lcores.h.
  TenantService(pipeline::Pipeline& pipeline, device::Device& device, const Clock& clock,
                const config::Config& config, std::vector<unsigned> executor_cpus,
                MakeGroup make_group = runtime::make_group);
  ~TenantService();  // stops the groups; REQUIRES: the workers have stopped

  // Sets the fallback device, which is opened when the device first fails. A group's thread then
  // calls `on_failure`, perhaps more than once. Without a fallback, groups of a failed device
  // refuse all requests. REQUIRES: called before the first tenant is added.
  void set_fallback(OpenDevice open, std::function<void()> on_failure);
  // Moves the groups of a failed device to the fallback. A tenant's requests are refused with
  // device_failed until it has moved. Does nothing if no device has failed. Errors: kUnavailable
  // (no fallback), or the first error of loading a tenant; requests of such tenants are still
  // refused.
  Status leave_failed_device(const model::Progress& progress);
  // Moves the device's groups to the fallback, resets the device, and moves the groups back, while
  // they serve. Errors: those of Device::reset (the fallback then serves everything) and of
  // loading.
  Status reset_device(const model::Progress& progress);
  // Returns true while the fallback is in use. Any thread.
  bool uses_fallback() const noexcept { return uses_fallback_.load(); }

  // Adds tenants whose models are not loaded: their requests are verified and refused with
  // not_admitted. Replaces the settings of tenants that are already expected; leaves out tenants
  // beyond kMaxTenants. REQUIRES: none of them is loaded.
  void expect(const std::vector<TenantSettings>& all);
  // Loads and serves a new or an expected tenant. On error an expected tenant stays expected.
  // Errors: kAlreadyExists (id), those of open_model and Group::admit, kResourceExhausted (groups,
  // tenants), kUnavailable (the device of the group that the settings name has failed).
  Result<TenantInfo> admit(const TenantSettings& settings, const model::Progress& progress);
  // Changes the settings of a loaded tenant and, with `reload`, loads settings.model_dir in place
  // of its model. On error nothing has changed. Errors: kNotFound; with `reload` those of admit().
  Result<TenantInfo> update(const TenantSettings& settings, bool reload,
                            const model::Progress& progress);
  // Removes a loaded or expected tenant. Errors: kNotFound.
  Status remove(uint32_t id);

  // Sets the planner of a group, also for later groups of that name. Returns the previous planner.
  // Errors: kInvalidArgument (planner), kNotFound (no such group), kUnavailable (its cost tables
  // could not be measured).
  Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                  const model::Progress& progress);
  // Sets the planners of future groups, by group name. REQUIRES: every planner exists.
  void expect_planners(std::map<std::string, std::string> planners);
  // Returns the GEMM costs of a group, as measured or read from its profile. Errors: kNotFound (no
  // such group, or no costs yet). Any thread.
  Result<std::shared_ptr<const plan::CostTables>> profile(const std::string& group) const;
  // Measures the GEMM costs again, between the group's batches. Errors: kNotFound, kUnavailable,
  // those of the device.
  Status run_profile(const std::string& group, const model::Progress& progress);

  // Refuses new requests with `draining` from now on. Waits until no request is in flight or the
  // timeout has passed; returns the number of requests left. Any thread.
  uint64_t drain(uint64_t timeout_ns);
  void resume_from_drain();  // does nothing after cancel()
  // Ends running operations early, for a shutdown: a load fails with kUnavailable, a drain in
  // progress returns, a slot in use is not freed. Any thread.
  void cancel() noexcept { cancelled_.store(true); }
  bool draining() const;
  uint64_t in_flight() const;

  std::vector<TenantInfo> list() const;
  size_t num_loaded() const;
  std::vector<GroupInfo> groups() const;

 private:
  struct Serving {  // a tenant and, if it is loaded, the place of its model
    TenantInfo entry;
    uint16_t group = 0;
    uint32_t slot = 0;
    std::shared_ptr<tenant::Lease> lease = std::make_shared<tenant::Lease>();
    uint16_t payload_kinds = 0;
    uint32_t max_payload_bytes = 0;
  };

  Result<Serving> load(const TenantSettings& settings, const model::Progress& progress);
  Result<Serving> load_into(uint16_t group, const TenantSettings& settings,
                            const model::Progress& progress);
  // Returns nullopt if a group must be created.
  Result<std::optional<uint16_t>> find_group(const std::string& name,
                                             const model::BackboneSpec& spec) const;
  bool overlaps(runtime::Group& group, const device::Device& device) const;
  Result<uint16_t> start_group(const std::string& name, const model::BackboneSpec& spec,
                               const model::Progress& progress);
  // Creates a group that serves with the packed planner until prepare_planner().
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

  pipeline::Pipeline& pipeline_;
  device::Device& device_;
  OpenDevice open_fallback_;
  std::unique_ptr<device::Device> fallback_;  // null until it is needed
  std::atomic<bool> uses_fallback_{false};
  const Clock& clock_;
  runtime::GroupOptions group_options_;
  pipeline::GroupStageOptions stage_options_;
  MakeGroup make_group_;
  std::string default_planner_;
  std::string profile_dir_;
  std::string overlap_;                          // auto, on, off
  std::map<std::string, std::string> planners_;  // set by control; by group name
  bool busy_ = false;                            // executors spin while each has its own CPU
  size_t num_executor_cpus_;
  // Guards tenants_ to draining_, which any thread reads. Control's worker reads the members that
  // only it writes without the lock.
  mutable std::mutex mutex_;
  std::vector<Serving> tenants_;
  std::vector<Serving> leaving_;  // no longer published, perhaps still in use
  std::vector<std::unique_ptr<pipeline::GroupStage>> stages_;  // by group number
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

}  // namespace itif::serving
