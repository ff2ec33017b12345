// The messages between the two processes of a handover: JSON objects over a socket pair of packets.
// A process that ends closes its side. A message of more than 32 KiB takes several packets:
//
//   packet = object | "+" part | "." last part
//
// Packets may have any length, because earlier versions of itifd send a message of up to 64 KiB as
// one packet.
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
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "control/file.h"
#include "net/port.h"

namespace itif::serving {

// A port of the old process: its configuration, as far as it must not differ, and its device.
struct InheritedPort {
  std::string device;  // as configured
  uint16_t num_queues = 1;
  uint32_t mtu = 1500;
  net::PortInfo info;
};

struct Inheritance {
  std::string file_prefix;  // EAL's, of the old process
  bool has_hugepages = false;
  std::vector<uint32_t> failed_tenants;   // whose active version the old process has not loaded
  std::vector<uint32_t> failed_canaries;  // tenants whose canary it has not loaded
  std::vector<InheritedPort> ports;
  std::string device;  // the kind of the old process's device; empty: not known
};

nlohmann::json to_json(const Inheritance& inheritance);
// Errors: kInvalidArgument (a message of another version of itifd).
Result<Inheritance> inheritance_from(const nlohmann::json& message);

class HandoverChannel {
 public:
  explicit HandoverChannel(control::Descriptor socket) : socket_(std::move(socket)) {}

  // Sends {"step": step, fields…}. Waits while the socket is full, until gives_up(), if given,
  // returns true. Returns false if the message is not sent: the other process has ended, or the
  // wait was given up; the channel is then useless.
  bool send(const std::string& step, nlohmann::json fields = nlohmann::json::object(),
            const std::function<bool()>& gives_up = {});
  // The longest message that receive() accepts. A hello with six million failed tenants fits.
  static constexpr size_t kMaxMessageBytes = 64 << 20;
  struct Received {
    nlohmann::json message;  // null: none yet, ended or too long
    bool ended = false;      // the other process
    // Length of a message of more than kMaxMessageBytes, which is not kept; 0: it is shorter.
    size_t too_long_bytes = 0;
    // Returns a field of the message; `otherwise` if it is missing or no text.
    std::string text(const char* field, const char* otherwise = "") const;
    std::string step() const { return text("step"); }
  };
  // Waits for a message for at most timeout_ms, and as long for each of its further packets. A
  // message that is no JSON object is skipped.
  Received receive(int timeout_ms);
  int descriptor() const { return socket_.get(); }
  // Returns true if the other process has ended and all its messages are read. Any thread.
  bool has_ended() const;
  // Keeps the socket open until this process ends. REQUIRES: no other call follows.
  void keep_open() { socket_.release(); }

 private:
  bool send_packet(std::string_view bytes, const std::function<bool()>& gives_up);
  void add_part(std::string_view part);

  control::Descriptor socket_;
  // Received of an incomplete message. Empty if it is too long: its bytes are only counted.
  std::string parts_;
  size_t parts_bytes_ = 0;
};

// Returns the error of a message that is too long. `expected`: the step that was waited for, since
// the message is not read.
Error too_long(const HandoverChannel::Received& received, std::string_view expected);

}  // namespace itif::serving
