// The tenant service: owns the tenants' state, loads models into groups, and publishes the workers'
// snapshot of tenants. lib/control/appliance.h describes what control asks of it.
//
//   expect: the tenant is known, but its requests are refused with not_admitted until admit()
//   admit:  read the spec → find or create a group → load the model while the group serves others →
//           publish a snapshot
//   update: new settings → publish; a new version → load it into a new slot, check it, publish
//   settle: wait until the slots of versions that the tenant no longer needs are unused, free them
//   remove: publish without the tenant → wait until no worker and no request refers to it → free
//           its slots
//
// The previous version keeps its slot until another load needs the slot or its memory, or until its
// group moves. tenant_service_versions.cc has update(), settle() and remove().
//
// If a device fails, its groups are created again on the next device of the table, their tenants
// move there, and requests follow. After a reset they move back in the same way
// (tenant_service_device.cc).
//
// Threads: one thread at a time makes changes (control's job thread). It gives the long work to the
// loader threads: opening a model, filling its slot, making a group's workspace, freeing memory.
// Several models load at the same time (tenant_service_loads.cc); a loader thread touches only its
// model and the group, which admits models of any thread. Any thread may call drain(), cancel() and
// the functions that return figures.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "control/appliance.h"
#include "device/device.h"
#include "execution/group_stage.h"
#include "model/tenant_model.h"
#include "pipeline/figures.h"
#include "pipeline/pipeline.h"
#include "plan/cost_tables.h"
#include "runtime/make_group.h"
#include "serving/device_table.h"
#include "serving/group_cpus.h"
#include "serving/group_shares.h"
#include "serving/loader_threads.h"
#include "slice/knee_profile.h"
#include "tenant/record.h"
#include "tenant/snapshot.h"

namespace itif::runtime {
class KneeMeter;
}
namespace itif::telemetry {
class VersionCounts;
}

namespace itif::serving {

// A tenant, and the index of its figures.
struct TenantInfo : tenant::Info {
  uint32_t index = 0;
  uint32_t in_flight = 0;          // requests at the time of list()
  pipeline::TenantFigures before;  // the index's figures when this tenant received the index
  std::shared_ptr<const pipeline::StageFigures> stages_before;  // likewise; null: all 0
  // Set if the canary is in another group than the active version: the answers of both since they
  // were loaded.
  struct CanaryElsewhere {
    std::string group;
    uint64_t answered_by_active = 0, answered_by_canary = 0;
  };
  std::optional<CanaryElsewhere> canary_elsewhere = {};
};

struct GroupInfo {
  uint16_t number = 0;  // unique among the running groups
  std::string name;
  std::string backbone;
  std::vector<std::string> tenant_names;
  uint32_t max_tenants = 0;
  uint32_t used_slots = 0;  // by all versions of its tenants
  uint64_t weight_bytes = 0;
  uint64_t workspace_bytes = 0;
  uint32_t waiting = 0;    // requests, now
  uint32_t executing = 0;  // requests, now
  uint64_t batches = 0, requests = 0, tokens = 0, rows = 0, tenants = 0, refused = 0, busy_ns = 0;
  uint64_t turn_wait_ns = 0;  // part of busy_ns
  // The running batch's part, which busy_ns and turn_wait_ns have when it ends.
  uint64_t running_ns = 0, running_turn_wait_ns = 0;
  // Requests that ended with a result; Σ over these, from the start of their batch to its end.
  uint64_t answered = 0, execute_ns = 0;
  uint64_t intake_ns = 0;  // time of its thread in taking requests in
  bool overlaps = false;   // its thread prepares a batch while another computes
  uint32_t max_batch_tokens = 0, max_batch_requests = 0;
  std::string planner, scheduler;
  GroupShares::Share share;
  std::vector<unsigned> own_cpus;                                      // GroupCpus::own()
  uint64_t kv_blocks = 0, kv_blocks_used = 0, kv_blocks_reserved = 0;  // 0: no generation
  bool keeps_graphs = false;                                           // its device captures graphs
  uint64_t graphs = 0, graph_launches = 0, graph_failures = 0, refused_gemms = 0;
  bool device_failed = false;
  bool spins = false;         // its thread spins while idle
  ComputeTypes compute = {};  // of the device
  std::string device;         // the device's kind
};

// runtime::make_group, or a test's replacement.
using MakeGroup = std::function<Result<std::unique_ptr<runtime::Group>>(
    device::Device&, const model::BackboneSpec&, const runtime::GroupOptions&,
    const runtime::KindOptions&)>;

class TenantService final : public control::Appliance {
 public:
  // All references outlive this object. `executor_cpus`: see lcores.h.
  TenantService(pipeline::Pipeline& pipeline, DeviceTable& devices, const Clock& clock,
                const config::Config& config, std::vector<unsigned> executor_cpus,
                MakeGroup make_group = runtime::make_group);
  ~TenantService() override;  // stops the groups; REQUIRES: the workers have stopped

  // Sets what a group's thread calls, perhaps more than once, when its device fails. Until
  // leave_failed_device(), the groups of that device refuse all requests. REQUIRES: called before
  // the first tenant is added.
  void on_device_failed(std::function<void()> call) {
    stage_options_.on_device_failed = std::move(call);
  }

  // Sets what is called with a model's files before they are parsed; an error of it refuses the
  // model. `gives_up`: the load was cancelled. It is called from several threads. REQUIRES: called
  // before the first tenant is added.
  using CheckModel =
      std::function<Status(const model::ModelFiles& files, const std::function<bool()>& gives_up)>;
  void check_models_with(CheckModel check) { check_model_ = std::move(check); }

  void expect(const std::vector<tenant::Record>& records, const std::string& failure) override;
  Status admit(const tenant::Record& record, const control::Progress& progress) override;
  void admit_listed(const std::vector<tenant::Record>& records, const OnAdmitted& done) override;
  Status update(const tenant::Record& record, Loads loads,
                const control::Progress& progress) override;
  void settle(uint32_t id) override;
  Result<tenant::Removal> remove(uint32_t id, uint64_t timeout_ns) override;
  void free_unused() override;
  void measure_missing() override;
  void yield_when(std::function<bool()> is_wanted) override { is_wanted_ = std::move(is_wanted); }
  std::vector<tenant::Info> tenants() const override;
  std::optional<tenant::Info> tenant(const tenant::Ref& ref) const override;
  std::vector<tenant::VersionFigures> version_figures(uint32_t id) const override;
  void expect_groups(std::map<std::string, control::GroupSettings> settings) override;
  Result<std::string> set_planner(const std::string& group, const std::string& planner,
                                  const control::Progress& progress) override;
  Result<std::string> set_scheduler(const std::string& group,
                                    const std::string& scheduler) override;
  Result<uint32_t> set_share(const std::string& group, uint32_t percent) override;
  Result<std::vector<unsigned>> set_cpus(const std::string& group,
                                         const std::vector<unsigned>& cpus) override;
  Result<uint32_t> set_weight(const std::string& group, uint32_t weight) override;
  Status run_profile(const std::string& group, const control::Progress& progress) override;
  Status measure_knee(const std::string& group, const control::Progress& progress) override;
  Status leave_failed_device(const control::Progress& progress) override;
  Status reset_device(const control::Progress& progress) override;
  uint64_t drain(uint64_t timeout_ns) override;
  void resume_from_drain() override;  // does nothing after cancel()
  void cancel() noexcept override { cancelled_.store(true); }

  // Returns the GEMM costs of a group, as measured or read from its profile. Errors: kNotFound (no
  // such group, or no costs yet). Any thread.
  Result<std::shared_ptr<const plan::CostTables>> profile(const std::string& group) const;
  // Returns the throughput of a group by share, as measured or read from an earlier measurement.
  // Errors: kNotFound (no such group, or not measured). Any thread.
  Result<std::shared_ptr<const slice::KneeProfile>> knee(const std::string& group) const;
  // Returns the planner of a group and its last batches, oldest first. Errors: kNotFound (no such
  // group), kUnsupported (it generates). Any thread.
  struct PlannedBatches {
    std::string planner;
    std::vector<runtime::BatchFigures> batches;
  };
  Result<PlannedBatches> planned_batches(const std::string& group) const;
  // The calls below: any thread.
  bool draining() const;
  // Stops accepting requests until resume_from_drain(), and waits as drain() does. Returns the
  // requests in flight. REQUIRES: `intake` is not kAccept.
  uint64_t stop_accepting(tenant::Intake intake, uint64_t timeout_ns);
  uint64_t in_flight() const;
  std::vector<TenantInfo> list() const;
  size_t num_loaded() const;
  std::vector<GroupInfo> groups() const;

 private:
  struct Model {  // a version in a slot of its group
    tenant::ServedModel served;
    tenant::LoadedModel info;
    tenant::Contents contents;
  };
  struct Serving {  // a tenant and its loaded versions; the record says which of them serve
    TenantInfo info;
    std::vector<Model> models;
    std::map<uint32_t, std::shared_ptr<telemetry::VersionCounts>> counts;  // by version

    Model* find(uint32_t version);
    const Model* find(uint32_t version) const;
    const Model* active() const { return find(info.record.version); }
    const Model* canary() const;
    // Returns true if the version answers requests.
    bool serves(uint32_t version) const;
    uint32_t in_flight() const;
    std::optional<TenantInfo::CanaryElsewhere> canary_elsewhere() const;
  };
  struct Leaving {  // a model that is no longer published, perhaps still in use
    Model model;
    uint64_t generation = 0;  // of the first snapshot without it
    uint32_t index = 0;       // its tenant's
    bool is_unused(const tenant::SnapshotCell& cell) const;
  };

  // The functions below run on control's job thread. An exception of a loader's library becomes
  // kInternal: a bad model must not end the process. They are listed by file.
  // tenant_service_loads.cc
  static std::unexpected<Error> unexpected_failure(const std::string& model_dir,
                                                   const std::exception& e);
  static std::unexpected<Error> stopping();
  // Opens a model that check_models_with()'s function accepts. A loader thread.
  Result<backbone::OpenedModel> open_checked(const model::ModelFiles& files) const;
  enum class Origin : uint8_t {
    kNew,      // no registry has it yet: it is checked with its sample inputs
    kKnown,    // it serves already: changed files get a new number, by renumber()
    kEarlier,  // it is to serve again, or as another: changed files are refused
  };
  // Frees previous versions if there is no memory for the model.
  Result<Model> load(tenant::Record& record, const tenant::Version& version, Origin origin,
                     const control::Progress& progress);
  // The load of a version, and the group for its model, which choose_group() may create.
  struct Load {
    tenant::Record record;
    tenant::Version version;
    std::function<Result<uint16_t>(const backbone::OpenedModel&)> choose_group;
    // Its group is chosen after those of the loads before it, since it may depend on them.
    bool in_order = false;
    bool refuses_changes = false;  // the contents must be those that the version had
  };
  using OnLoaded = std::function<void(size_t load, Result<Model>)>;
  class LoadRun;  // runs them
  // Loads the models on the loader threads, several at the same time, and passes the result of each
  // to `done` as soon as it is there.
  void load_all(std::vector<Load> loads, const control::Progress& progress, const OnLoaded& done);
  Load load_of(const tenant::Record& record, const tenant::Version& version,
               const control::Progress& progress);
  // tenant_service_contents.cc
  static Origin origin_of(const tenant::Record& old, const tenant::Version& version);
  static std::unexpected<Error> changed_contents(const tenant::Record& record,
                                                 const tenant::Version& version);
  static Status check_not_withheld(const tenant::Record& record, const tenant::Version& version,
                                   const std::string& digest);
  Result<Model> renumber(tenant::Record& record, const tenant::Version& version, Model model,
                         const control::Progress& progress);
  // tenant_service_models.cc
  Result<Model> describe(uint16_t group, uint32_t slot, const tenant::Record& record,
                         const tenant::Version& version, tenant::Contents contents);
  void unload(const Model& model);
  void free_slot(uint16_t group, uint32_t slot);
  // tenant_service_placement.cc
  // Returns nullopt if a group must be created.
  Result<std::optional<uint16_t>> find_group(const std::string& name,
                                             const model::BackboneSpec& spec) const;
  std::optional<uint16_t> find_room(const std::string& name, const model::BackboneSpec& spec) const;
  bool takes(uint16_t group, const model::BackboneSpec& spec) const;
  void warn_of_full_group(const std::string& tenant, const model::BackboneSpec& spec,
                          uint16_t made) const;
  Result<uint16_t> choose_group(const tenant::Record& record, const tenant::Version& version,
                                model::BackboneSpec spec, const control::Progress& progress);
  void note_load(tenant::Record& record, const Model& model) const;
  bool is_full(uint16_t group) const;
  // tenant_service_groups.cc
  bool overlaps(runtime::Group& group, const device::Device& device) const;
  Result<uint16_t> start_group(const std::string& name, const model::BackboneSpec& spec,
                               const control::Progress& progress);
  // Runs on a loader thread.
  Result<std::unique_ptr<runtime::Group>> make_workspace(const std::string& name,
                                                         const model::BackboneSpec& spec,
                                                         device::Device& device);
  // Creates a group that serves with the packed planner until prepare_planner(). `yields`: as
  // GroupShares::add()'s.
  Result<uint16_t> make_group(const std::string& name, const model::BackboneSpec& spec,
                              device::Device& device, bool yields = false);
  Result<uint16_t> shared_number_of(const std::string& group) const;
  void prepare_scheduler(uint16_t group);
  Status use_scheduler(uint16_t group, const std::string& scheduler);
  void share_cpus();
  std::vector<const telemetry::WorkerCounters*> workers_beside(
      const device::Device& device, const std::vector<unsigned>& cpus) const;
  Status place_groups();
  void drop_group_if_empty(uint16_t group);
  // tenant_service_device.cc
  Status leave_device(device::Device& device, const control::Progress& progress);
  Status move_groups(const device::Device& from, device::Device& to,
                     const control::Progress& progress);
  std::unexpected<Error> still_used(const device::Device& device, const Error& error) const;
  struct Move;  // of a group
  void finish_move(Move& move);
  bool is_there(const Move& move, const device::Device& to) const;
  // tenant_service_profile.cc
  Result<uint16_t> number_of(const std::string& group) const;
  std::string profiled_as(const execution::GroupStage& stage) const;
  void prepare_planner(uint16_t group, const control::Progress& progress);
  Status use_planner(uint16_t group, const std::string& planner);
  Status find_tables(uint16_t group, const control::Progress& progress,
                     const std::function<bool()>& gives_up);
  void use_tables(uint16_t group, plan::CostTables tables);
  std::optional<plan::CostTables> read_tables(uint16_t group) const;
  void use_profiles_of_pool(uint16_t group);
  Status save_tables(uint16_t group) const;  // errors: those of plan::write_cost_tables()
  Status measure_tables(uint16_t group, const control::Progress& progress,
                        const std::function<bool()>& gives_up);
  bool is_wanted() const { return is_wanted_ && is_wanted_(); }
  // tenant_service_knee.cc
  void find_knee(uint16_t group);
  void use_knee(uint16_t group, slice::KneeProfile profile);
  double bounding_knee(uint16_t group) const;
  Status can_measure_knee(uint16_t group) const;
  Status measure_knee(uint16_t group, const control::Progress& progress);
  Status measure_shares(uint16_t group, runtime::KneeMeter& meter,
                        const control::Progress& progress);
  // tenant_service_versions.cc
  static constexpr uint64_t kNoTimeout = UINT64_MAX;
  static constexpr std::chrono::microseconds kPollPeriod{200};
  void load_canaries(const std::vector<uint32_t>& ids, const control::Progress& progress);
  Status check(const Model& model, const std::string& directory, uint32_t index,
               const control::Progress& progress);
  void fail_canary(Serving& serving, const std::string& why);
  void leave(std::vector<Model> models, uint32_t index, uint64_t timeout_ns);
  bool wait_until(const std::function<bool()>& done, uint64_t timeout_ns);
  void wait_for_all_left();
  bool free_previous(std::optional<uint16_t> group);
  bool has_previous(uint16_t group) const;
  std::vector<Model> take_models(Serving& serving, const std::function<bool(const Model&)>& which);
  std::shared_ptr<telemetry::VersionCounts> counts_of(uint32_t id, uint32_t version);
  // tenant_service.cc
  void tell_objectives();
  void yield_to_loads(bool loads) noexcept;
  uint64_t publish();
  Serving* find(uint32_t id);
  const Serving* find(uint32_t id) const;
  Status add(const tenant::Record& record, const std::string& failure);
  void erase(uint32_t id);
  void set_active(Serving& serving, const Model& model);
  Status finish_admission(tenant::Record record, Result<Model> loaded);
  void set_failure(Serving& serving, const std::string& failure);
  Result<uint32_t> free_index();
  void give_index(Serving& serving, uint32_t index);

  pipeline::Pipeline& pipeline_;
  DeviceTable& devices_;
  const Clock& clock_;
  runtime::GroupOptions group_options_;
  runtime::KindOptions kind_options_;
  execution::GroupStageOptions stage_options_;
  MakeGroup make_group_;
  CheckModel check_model_;           // may be empty
  std::function<bool()> is_wanted_;  // may be empty
  bool is_restoring_ = false;        // groups then serve before their costs are measured
  std::string default_planner_;
  std::string profile_dir_;
  std::string overlap_;                                     // auto, on, off
  std::map<std::string, control::GroupSettings> settings_;  // set by control; by group name
  bool busy_ = false;  // executors spin while each has its own CPU
  size_t num_executor_cpus_;
  // A device has one; all its groups use it.
  struct DeviceMemory {
    runtime::LoadMemory loads;
    model::WeightPool weights;
  };
  std::map<const device::Device*, DeviceMemory> memory_;
  // Guards tenants_ to intake_, which any thread reads. The job thread reads the members that
  // only it writes without the lock.
  mutable std::mutex mutex_;
  std::vector<Serving> tenants_;
  std::vector<Leaving> leaving_;
  std::vector<std::unique_ptr<execution::GroupStage>> stages_;  // by group number
  struct Layout {
    std::string planner, scheduler;
    std::shared_ptr<const plan::CostTables> tables;  // null: not measured
    std::shared_ptr<const slice::KneeProfile> knee;  // null: not measured
    std::vector<unsigned> own_cpus;                  // GroupCpus::own()
    bool lacks_tables = false;  // its measurement was interrupted; the job thread's
  };
  std::vector<Layout> layouts_;  // by group number
  // By group number; the job thread's. Slots that hold a model, or that a load is to fill.
  std::vector<uint32_t> num_slots_;
  GroupCpus cpus_;  // the job thread's
  GroupShares shares_;
  uint64_t generation_ = 0;
  tenant::Intake intake_ = tenant::Intake::kAccept;
  std::atomic<bool> cancelled_{false};
  uint32_t next_index_ = 0;
  device::Device* yielding_ = nullptr;  // while models load; only yield_to_loads() uses it
  LoaderThreads loaders_;
};

}  // namespace itif::serving
