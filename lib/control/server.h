// The control server: JSON requests over ZeroMQ in, calls on the Appliance and the registry out.
// docs/control.md is the format and every operation.
//
// Threads: an I/O thread owns the sockets and answers what is quick (health, stats, list, show); a
// worker thread runs what may take long or changes something (admit, update, remove, drain), one at
// a time, so that loading a model never keeps health from answering.
//
// A change is acknowledged only when it is in the appliance and committed to the registry; if the
// commit fails, the appliance is put back as it was.
//
//   ITIF_ASSIGN(auto server, control::Server::open(options, clock));  // binds
//   server->attach(appliance);  // before the first packet: the tenants are known
//   server->start();            // threads; restores the tenants
//   …
//   server->drain(timeout_ns);
//   server->stop();
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "control/appliance.h"

namespace itif::control {

struct ServerOptions {
  std::string endpoint = "ipc:///run/itif/control.sock";        // owner-only socket file
  std::string events_endpoint = "ipc:///run/itif/events.sock";  // owner-only; empty: no events
  std::string tcp_endpoint;          // "tcp://0.0.0.0:9010"; empty: none; needs both files below
  std::string curve_secret_file;     // made by `itifctl keygen`; mode 0600
  std::string authorized_keys_file;  // a client's public key a line; read anew for each connection
  std::string state_dir = "/var/lib/itif";
  uint64_t stats_period_ns = 1'000'000'000;  // between "stats" messages to subscribers
  uint32_t max_waiting = 64;                 // long operations queued before new ones are refused
};

class Server {
 public:
  // Opens the registry and binds the sockets; nothing is answered yet. `clock` outlives the server.
  // Errors: those of Registry::open; kUnavailable (another server listens, or the TCP port is
  // taken), kPermission, kInvalidArgument (endpoints, key files), one line each with what to do.
  static Result<std::unique_ptr<Server>> open(const ServerOptions& options, const Clock& clock);
  ~Server();  // stop()

  // Tells the appliance which tenants to expect, so that it can refuse their requests by name until
  // they are admitted. `appliance` outlives stop(). REQUIRES: called once, before start().
  void attach(Appliance& appliance);
  // Starts answering; the first thing the worker does is to admit every tenant of the registry. One
  // that cannot be admitted is logged and listed as "failed". REQUIRES: called once.
  void start();
  // Blocks until every tenant of the registry was admitted or has failed; false: not within the time.
  bool wait_restored(uint64_t timeout_ns);
  // For a shutdown: what runs ends early, what waits is refused, and the appliance drains at once;
  // blocks. Any thread of the application. Errors: kUnavailable (stopped), those of
  // Appliance::drain.
  Result<uint64_t> drain(uint64_t timeout_ns);
  // Has the worker bring tenants away from a device that has failed, after what it is at. Any thread.
  void leave_failed_device();
  // Sends {"v":1,"event":name,"unix_ns":…, fields…} to subscribers. Any thread.
  void publish_event(const std::string& name, const nlohmann::json& fields);
  // Finishes the operation that is running, refuses those waiting, closes the sockets. Idempotent.
  void stop();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace itif::control
