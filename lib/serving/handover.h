// The old process's side of a handover (control/handover.h): starts the new process, waits until it
// has loaded every tenant's model, and switches.
//
// The switch, if the ports' driver lets two processes receive (net::can_be_shared):
//   the new process opens the ports → the new one serves, and each worker of this one ignores new
//   requests once it has handled the packets that waited in its queue → this one answers what it
//   accepted, and ends
// With other drivers:
//   this one ignores new requests, answers what it accepted, closes the ports → the new one opens
//   them and serves → this one ends
// A request that is ignored, or arrives while no process has the port, is repeated by its client.
//
// Until the new process serves, every step can be undone: after an error this process serves as
// before.
#pragma once

#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "config/config.h"
#include "control/handover.h"
#include "control/server.h"
#include "pipeline/pipeline.h"
#include "serving/new_process.h"
#include "serving/tenant_service.h"

namespace itif::serving {

struct HandoverOptions {
  std::string program;                // of this process
  std::string config_file;            // of this process; an absolute path
  cpu_set_t cpus{};                   // of this process at its start
  std::vector<std::string> eal_args;  // as EAL was started
  bool has_hugepages = false;
  std::string device;  // the kind of the preferred device
};

class ProcessHandover final : public control::Handover {
 public:
  // The parts of this process that the handover changes; all outlive it. The functions stop and
  // start the Prometheus endpoint; `end` makes the main thread end the process; `predecessor`
  // returns the process that has handed over to this one, or 0 if there is none any more.
  struct Parts {
    const Clock& clock;
    const config::Config& config;
    pipeline::Pipeline& plane;
    TenantService& service;
    control::Server& server;
    std::function<void()> stop_metrics;
    std::function<Status()> start_metrics;
    std::function<void()> end;
    std::function<pid_t()> predecessor;
  };
  ProcessHandover(HandoverOptions options, Parts parts)
      : options_(std::move(options)), parts_(std::move(parts)) {}

  Result<nlohmann::json> run(const control::HandOver& operation,
                             const control::Progress& progress) override;
  void cancel() noexcept override { cancelled_.store(true); }
  // Returns true once another process serves. Any thread.
  bool done() const noexcept { return done_.load(); }

 private:
  struct Undo {  // what to undo after an error
    bool intake = false, ports = false, server = false, metrics = false;
  };

  Result<nlohmann::json> run_with(NewProcess& process, const control::Progress& progress,
                                  Undo& undo);
  Inheritance inheritance() const;
  bool shares_ports() const;
  // Waits until the new process reports the step.
  Status wait_for(NewProcess& process, const std::string& step, const control::Progress& progress);
  Error undo(const Undo& undo, Error error);

  std::vector<uint16_t> failed_groups() const;

  const HandoverOptions options_;
  const Parts parts_;
  uint64_t give_up_ns_ = 0;              // of the run
  bool is_switching_ = false;            // the new process has loaded all models
  std::vector<uint16_t> failed_before_;  // groups whose device had failed when the run began
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> done_{false};
};

}  // namespace itif::serving
