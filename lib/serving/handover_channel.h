// The messages between the two processes of a handover: JSON objects over a socket pair, one per
// packet. A process that ends closes its side.
//
//   old → new  hello    the Inheritance
//   new → old  progress stage, fraction: while it loads models
//   new → old  loaded   it could serve now
//   old → new  open     open the ports: the old process has closed or shares them
//   new → old  opened   packets arrive at the new process
//   old → new  serve    the registry, the endpoints and all new requests are yours
//   new → old  serving  the old process answers what it accepted, and ends
//   new → old  failed   code, message: instead of any of the above
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/file.h"
#include "net/port.h"
#include "wire/datagram.h"

namespace itif::serving {

// A port of the old process: its configuration, as far as it must not differ, and its device.
struct InheritedPort {
  std::string device;  // as configured
  uint16_t num_queues = 1;
  uint32_t mtu = 1500;
  net::PortInfo info;
};

struct Inheritance {
  wire::Key token_secret{};  // clients hold tokens that it made
  std::string file_prefix;   // EAL's, of the old process
  bool has_hugepages = false;
  std::vector<uint32_t> failed_tenants;  // whose models the old process could not load either
  std::vector<InheritedPort> ports;
  std::string device;  // the kind of the old process's device; empty: not known
};

nlohmann::json to_json(const Inheritance& inheritance);
// Errors: kInvalidArgument (a message of another version of itifd).
Result<Inheritance> inheritance_from(const nlohmann::json& message);

class HandoverChannel {
 public:
  explicit HandoverChannel(control::Descriptor socket) : socket_(std::move(socket)) {}

  // Sends {"step": step, fields…}. Returns false if the other process has ended.
  bool send(const std::string& step, nlohmann::json fields = nlohmann::json::object());
  struct Received {
    nlohmann::json message;  // null: none yet, or ended
    bool ended = false;      // the other process
    std::string step() const { return message.is_object() ? message.value("step", "") : ""; }
  };
  // Waits for a message for at most timeout_ms. A message that is no JSON object is skipped.
  Received receive(int timeout_ms);
  int descriptor() const { return socket_.get(); }

 private:
  control::Descriptor socket_;
};

}  // namespace itif::serving
