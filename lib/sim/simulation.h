// Runs a scenario: the client engine, the link and the appliance in one thread, on a virtual clock
// that jumps from event to event. Control and faults (faults.h) act between events.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "client/engine.h"
#include "sim/appliance.h"
#include "sim/event_log.h"
#include "sim/figures.h"
#include "sim/link.h"
#include "sim/model_files.h"
#include "sim/workload.h"

namespace itif::sim {

// Number of positions in a group's random token ids at which a text may begin.
inline constexpr size_t kIdTable = 65536;

struct SimulationOptions {
  bool logs_events = false;
  std::FILE* log_file = nullptr;         // the events' text; null: only their hash
  uint64_t interval_ns = 1'000'000'000;  // of the time line
  bool notes_batches = false;            // GroupResults::batches, and a time line in any case
};

// Acts on a simulation between its events.
class Intruder {
 public:
  virtual ~Intruder() = default;
  // When act() must be called next; UINT64_MAX: never.
  virtual uint64_t next_ns() const noexcept = 0;
  virtual Status act() = 0;
};

class Simulation final : public client::OutcomeSink {
 public:
  // `nic` outlives the simulation, which has it alone. Errors: those of Workload, Appliance and
  // ClientEngine, and of writing the models' files.
  static Result<std::unique_ptr<Simulation>> create(const Scenario& scenario, Nic& nic,
                                                    const SimulationOptions& options = {});
  ~Simulation() override;

  // Runs until every request has its outcome. Errors: those of `intruder`, which may be null;
  // kInternal: the simulation does not end.
  Status run(Intruder* intruder = nullptr);
  const Results& results() const noexcept { return results_; }

  // For an intruder.
  uint64_t now_ns() const noexcept { return clock_.now_ns(); }
  uint64_t start_ns() const noexcept { return start_ns_; }
  Appliance& appliance() noexcept { return *appliance_; }
  Link& link() noexcept { return link_; }
  EventLog& log() noexcept { return log_; }
  // The record of a tenant, with its model's files. Tenants are numbered over all groups.
  const tenant::Record& record(uint32_t tenant) const noexcept { return targets_[tenant].record; }
  const Nic& nic() const noexcept { return nic_; }
  const client::EngineStats& engine_stats() const noexcept { return engine_->stats(); }
  // Gives a tenant another id and key, and writes a model of another mark.
  Status renew(uint32_t tenant, uint32_t id);
  // Makes the client send a tenant's requests under another one's id, with a key of its own. The
  // appliance must answer none of them. REQUIRES: before run().
  void impersonate(uint32_t tenant, uint32_t victim);
  // Sets the objective of a tenant's later requests.
  void set_objective(uint32_t tenant, uint64_t slo_ns);
  // Ends the appliance, with all that it holds, and starts another with these tenants.
  Status restart(const std::vector<tenant::Record>& records);
  // Removes all tenants and waits until their slots are free. REQUIRES: run() has ended. Errors:
  // kInternal: they never leave.
  Status remove_all();

  void on_outcomes(std::span<const client::Outcome> outcomes) noexcept override;

 private:
  struct Target {
    size_t group = 0;
    tenant::Record record;
    client::Credential credential;
    uint64_t mark = 0;
  };
  // A request in flight; the engine's user tag is its index.
  struct Pending {
    size_t group = 0;
    uint64_t arrival_ns = 0, deadline_ns = 0;
    uint32_t tenant = 0, num_tokens = 0, first_id = 0;
    uint64_t mark = 0;
    bool measured = false, in_use = false;
    uint32_t num_output = 0;            // tokens that the answer must have; 0: it has logits
    std::vector<uint16_t> source = {};  // payload of a request that generates
  };
  // Sends a group's requests.
  struct Source {
    model::BackboneSpec spec;
    uint64_t start_ns = 0;      // of its arrivals
    uint64_t duration_ns = 0;   // of its arrivals
    uint32_t first_tenant = 0;  // its first target
    std::optional<Workload> workload = {};
    std::optional<Draw> next = {};
    std::vector<uint16_t> ids = {};     // random token ids; a payload is a part of them
    std::vector<std::byte> image = {};  // of models that take images: the payload of all requests
    uint32_t in_flight = 0;
  };
  Simulation(const Scenario& scenario, Nic& nic, const SimulationOptions& options);
  Status make_targets();
  Status make_sources();
  Status make_engine();
  void submit_due();
  void submit_due(size_t group);
  void submit(size_t group, const Draw& draw);
  void make_payloads(size_t group);
  std::span<const uint16_t> text_of(const Pending& pending) const;
  std::span<const std::byte> payload_of(const Pending& pending) const;
  bool is_right(const Pending& pending, std::span<const std::byte> result) const;
  bool has_right_logit(const Pending& pending, std::span<const std::byte> result) const;
  bool has_right_tokens(const Pending& pending, std::span<const std::byte> result) const;
  Status check_memory() const;
  void log_batches();
  void note_groups();
  uint64_t objective_of(const Pending& pending) const noexcept;
  bool ends_early() const noexcept;
  size_t settle();
  uint64_t next_event_ns() noexcept;
  bool wants_more() const noexcept;

  const Scenario scenario_;
  const SimulationOptions options_;
  Nic& nic_;
  VirtualClock clock_;
  uint64_t start_ns_ = 0;
  Random random_;
  TemporaryDirectory directory_;
  std::vector<Target> targets_;
  uint64_t num_models_ = 0;
  Link link_;
  std::unique_ptr<Appliance> appliance_;
  std::unique_ptr<client::ClientEngine> engine_;
  std::vector<Source> sources_;  // by group
  std::vector<Pending> pending_;
  std::vector<uint32_t> free_;
  EventLog log_;
  std::vector<Appliance::Totals> noted_;  // by group
  uint64_t logged_batches_ = 0, logged_tokens_ = 0, logged_rows_ = 0;
  uint64_t last_outcome_ns_ = 0;
  uint64_t ended_busy_ns_ = 0;  // of appliances before a restart
  Appliance::Totals ended_;
  Results results_;
};

}  // namespace itif::sim
