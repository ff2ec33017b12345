// The client of the control server: used by itifctl, tests and C++ programs that script an
// appliance. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "control/appliance.h"
#include "control/curve.h"

namespace itif::control {

struct ClientOptions {
  std::string endpoint = "ipc:///run/itif/control.sock";
  std::optional<CurvePublicKey> server_key = std::nullopt;  // tcp endpoints need both
  std::optional<CurveKeyPair> client_key = std::nullopt;
  uint64_t connect_timeout_ns = 3'000'000'000;
};

struct CallError {
  enum class Kind {
    kUnreachable,  // no server, or the connection was lost: the operation's outcome is unknown
    kTimeout,      // no answer in time; the server may still be working on the operation
    kRefused,      // the server answered with an error
  };
  Kind kind = Kind::kRefused;
  Error error;
};

class Client {
 public:
  // Connects and completes the handshake. Errors: kUnreachable, kTimeout, with the remedy.
  static std::expected<std::unique_ptr<Client>, CallError> connect(const ClientOptions& options,
                                                                   const Clock& clock);
  ~Client();

  // Sends {"op":op,"args":args} and returns the answer's "ok". `progress` may be null. timeout_ns
  // restarts with each progress message; 0: no limit.
  std::expected<nlohmann::json, CallError> call(const std::string& op, const nlohmann::json& args,
                                                uint64_t timeout_ns,
                                                const Progress& progress = nullptr);

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Receives the messages that the server publishes on its events endpoint.
class EventStream {
 public:
  // Errors: kUnreachable.
  static std::expected<std::unique_ptr<EventStream>, CallError> subscribe(
      const std::string& events_endpoint, bool with_stats);
  ~EventStream();
  // Returns the next message; nullopt after timeout_ms.
  std::optional<nlohmann::json> next(int timeout_ms);

 private:
  class Impl;
  explicit EventStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace itif::control
