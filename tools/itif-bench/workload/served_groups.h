// Groups that serve closed loops or given rates of requests in this process: the appliance's group
// threads, executors, batch control and shares of the device, without packets. The caller's thread
// is client and worker of all groups.
//
// On the host, groups without shares have devices of their own: their pools then compete for the
// CPUs, as processes do under CUDA's MPS without limits. Streams of one device would take turns.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benches.h"
#include "device/device.h"
#include "execution/group_stage.h"
#include "pipeline/return_ring.h"
#include "sched/batch_control.h"
#include "serving/group_shares.h"
#include "telemetry/counters.h"
#include "workload/group_load.h"
#include "workload/model_folder.h"

namespace itif::bench {

// A preset with random weights, and its answers alone.
struct ServedModel {
  std::string name;  // of the preset
  model::BackboneSpec spec;
  std::filesystem::path directory;
  Questions questions;
  Answers answers;
  uint64_t alone_ns = 0;  // the time of one request alone
};

enum class Sharing { kNone, kEqual, kTuned };

// How a group forms its batches.
struct Batching {
  sched::BatchControlKind control = sched::BatchControlKind::kSlab;
  uint32_t max_requests = 256;
  uint32_t max_tokens = 4096;
  bool overlaps = false;  // prepares a batch while another computes
};

class ServedGroups {
 public:
  // The most requests in flight, of all groups together: the rings and queues hold as many.
  static constexpr uint32_t kMaxInFlight = 65536;

  // `device` computes, or is the model of the groups' own devices. Starts EAL at the first call of
  // a process. All references outlive the object. Errors: those of EAL; kResourceExhausted.
  static Result<std::unique_ptr<ServedGroups>> make(const BenchOptions& options,
                                                    device::Device& device,
                                                    const std::string& dtype, Sharing sharing);
  ~ServedGroups();  // waits for all answers

  // Loads a model into a new group. Returns its number: 0, 1, …. Errors: those of the group.
  Result<size_t> add(const ServedModel& model, const Batching& batching, const LoadOptions& load);
  // The group's requests begin, and it gets its share.
  void begin(size_t group);
  // The group's requests end, and it gives its share back. Waits for the answers in flight, while
  // the other groups serve.
  void end(size_t group);
  // Sets the objective of later requests.
  void set_objective(size_t group, uint64_t slo_ns);

  // Serves for some time.
  void run_for(uint64_t ns);
  // Serves for some time, and until each active group has given an answer.
  void run_until_each_answers(uint64_t ns);
  // Serves for some time, until every question to the active groups has been answered, and until
  // batch control has seen a few batches. Errors: kInternal, an answer differs from the group's
  // answer alone, or a request was refused.
  Status warm_up(uint64_t ns);
  // As warm_up()'s errors, now.
  Status check() const;
  // Counts anew.
  void reset();
  // Ends a period of the loads' time lines every `ns` from now on.
  void draw_time_lines(uint64_t ns);

  const GroupLoad& load(size_t group) const { return *groups_[group].load; }
  double share_percent(size_t group) const;

 private:
  struct Group {
    std::unique_ptr<device::Device> own_device = nullptr;
    std::unique_ptr<execution::GroupStage> stage = nullptr;
    std::unique_ptr<GroupLoad> load = nullptr;
    std::string name;
    uint64_t slo_ns = 0;
    bool is_active = false;
  };

  ServedGroups(const BenchOptions& options, device::Device& device, std::string dtype)
      : options_(options), device_(device), dtype_(std::move(dtype)) {}
  // Serves until `is_done` or a time.
  void run_until(uint64_t end_ns, const std::function<bool()>& is_done);
  void serve(uint64_t end_ns);
  void end_intervals(uint64_t now_ns);

  const BenchOptions& options_;
  device::Device& device_;
  const std::string dtype_;
  std::unique_ptr<pipeline::ReturnRing> returned_;
  telemetry::WorkerCounters client_counters_;  // the pool shares its CPUs with the clients
  std::unique_ptr<serving::GroupShares> shares_;
  std::vector<Group> groups_;
  uint64_t interval_ns_ = 0, next_interval_ns_ = UINT64_MAX;
};

// The models of a bench, made once.
class ServedModels {
 public:
  static Result<ServedModels> make(uint32_t num_tokens);
  // Makes the model, and asks it alone. Errors: kNotFound, and those of ServedGroups.
  Result<ServedModel*> get(const std::string& preset, const BenchOptions& options,
                           device::Device& device, const std::string& dtype);

 private:
  ServedModels(ModelFolder folder, uint32_t num_tokens)
      : folder_(std::move(folder)), num_tokens_(num_tokens) {}

  ModelFolder folder_;
  const uint32_t num_tokens_;
  std::vector<std::unique_ptr<ServedModel>> models_;
};

}  // namespace itif::bench
