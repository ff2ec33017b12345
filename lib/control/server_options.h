// The endpoints, key files and limits of the control server.
#pragma once

#include <cstdint>
#include <string>

namespace itif::control {

struct ServerOptions {
  std::string endpoint = "ipc:///run/itif/control.sock";        // owner-only socket file
  std::string events_endpoint = "ipc:///run/itif/events.sock";  // owner-only; empty: no events
  std::string tcp_endpoint;          // "tcp://0.0.0.0:9010"; empty: none; needs both files below
  std::string curve_secret_file;     // made by `itifctl keygen`; mode 0600
  std::string authorized_keys_file;  // one client public key per line; read for each connection
  std::string state_dir = "/var/lib/itif";
  uint64_t stats_period_ns = 1'000'000'000;  // between "stats" messages to subscribers
  uint32_t max_waiting = 64;                 // long operations queued before new ones are refused
};

}  // namespace itif::control
