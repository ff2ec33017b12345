// The control server: receives JSON requests over ZeroMQ and calls the Appliance and the registry.
// docs/control.md specifies the format and every operation.
//
// Threads: an I/O thread owns the sockets and answers quick requests (health, stats, list, show). A
// job thread runs long or changing operations (admit, update, remove, drain), one at a time.
// Loading a model therefore never delays health.
//
// A change is acknowledged after the appliance has applied it and the registry has committed it. If
// the commit fails, the appliance is restored to its previous state.
//
//   ITIF_ASSIGN(auto server, control::Server::open(options, clock));  // binds
//   server->attach(appliance, documents);  // before the first packet: lists the tenants
//   server->start();            // starts the threads; restores the tenants
//   …
//   server->drain(timeout_ns);
//   server->stop();
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "control/appliance.h"
#include "control/documents.h"
#include "control/handover.h"
#include "control/server_options.h"

namespace itif::control {

class Server {
 public:
  // Opens the registry and binds the sockets; does not answer yet. `clock` must outlive the server.
  // Errors: those of Registry::open; kUnavailable (another server listens, or the TCP port is
  // taken), kPermission, kInvalidArgument (endpoints, key files), one line each with the remedy.
  static Result<std::unique_ptr<Server>> open(const ServerOptions& options, const Clock& clock);
  // As open(), beside the server of another process that holds the registry and the endpoints: the
  // tenants are those of a copy of the registry, and nobody can send requests until take_over().
  static Result<std::unique_ptr<Server>> open_beside(const ServerOptions& options,
                                                     const Clock& clock);
  ~Server();  // stop()

  // Passes the registered tenants to the appliance, which refuses their requests with not_admitted
  // until they are admitted. Both must outlive stop(). REQUIRES: called once, before
  // start().
  void attach(Appliance& appliance, const Documents& documents);
  // Sets the object that runs handovers. REQUIRES: called after attach(), before start().
  void use_handover(Handover& handover);
  // Starts answering. The job thread first admits every tenant of the registry; one that cannot be
  // admitted is logged and listed as "failed". REQUIRES: called once.
  void start();
  // Opens the registry and binds the endpoints, which the other process has released, and starts
  // answering. Errors: those of open(). REQUIRES: open_beside(), start() were called.
  Status take_over();
  // Releases the registry and the endpoints for another process. Open connections are served until
  // stop(). Job thread, in Handover::run.
  Status release();
  // Takes the registry and the endpoints back after release(). Job thread, in Handover::run.
  Status take_back();
  // Blocks until every tenant of the registry is admitted or failed; false after timeout_ns.
  bool wait_restored(uint64_t timeout_ns);
  // Shuts down: ends the running operation early, refuses waiting ones, and drains the appliance.
  // Blocks. Any application thread. Errors: kUnavailable (stopped), those of Appliance::drain.
  Result<uint64_t> drain(uint64_t timeout_ns);
  // Makes the job thread move tenants off a failed device after its current operation. Any thread.
  void leave_failed_device();
  // Returns the number of turns of the I/O thread's loop, and wakes it up for another one: if the
  // number does not rise, nobody is answered. Returns nothing if the thread does not run. Any
  // thread, but not while start(), take_over() or stop() runs.
  std::optional<uint64_t> turns();
  // Sends {"v":1,"event":name,"unix_ns":…, fields…} to subscribers. Any thread.
  void publish_event(const std::string& name, const nlohmann::json& fields);
  // Finishes the running operation, refuses waiting ones, closes the sockets. Idempotent.
  void stop();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace itif::control
