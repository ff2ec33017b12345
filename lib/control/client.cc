#include "control/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include "control/ipc_endpoint.h"
#include "control/message.h"

namespace itif::control {
namespace {

using nlohmann::json;
using Kind = CallError::Kind;

std::unexpected<CallError> call_fail(Kind kind, Code code, std::string message) {
  return std::unexpected(CallError{kind, {code, std::move(message)}});
}

constexpr int kMonitored = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                           ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                           ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_CONNECT_RETRIED;
constexpr const char* kMonitor = "inproc://monitor";
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr int kNeverMs = 1'000'000'000;  // eleven days

}  // namespace

class Client::Impl {
 public:
  Impl(const ClientOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  std::expected<void, CallError> connect();
  std::expected<json, CallError> call(const std::string& op, const json& args, uint64_t timeout_ns,
                                      const Progress& progress);

 private:
  // Returns the next event of the connection, 0 if there is none. Remembers its end.
  int next_event();
  // Waits for a message or an event, at most 100 ms and not past deadline_ns (0: none).
  void wait(uint64_t deadline_ns);
  bool passed(uint64_t deadline_ns) const {
    return deadline_ns != 0 && clock_.now_ns() >= deadline_ns;
  }

  const ClientOptions options_;
  const Clock& clock_;
  zmq::context_t context_{1};
  zmq::socket_t dealer_{context_, zmq::socket_type::dealer};
  zmq::socket_t monitor_{context_, zmq::socket_type::pair};
  uint64_t next_id_ = 1;
  bool disconnected_ = false;
};

int Client::Impl::next_event() {
  zmq::message_t event, address;
  if (!monitor_.recv(event, zmq::recv_flags::dontwait)) return 0;
  if (event.more()) (void)monitor_.recv(address);
  uint16_t number = 0;
  if (event.size() >= sizeof number) std::memcpy(&number, event.data(), sizeof number);
  if (number == ZMQ_EVENT_DISCONNECTED || number == ZMQ_EVENT_CLOSED) disconnected_ = true;
  return number;
}

void Client::Impl::wait(uint64_t deadline_ns) {
  uint64_t timeout_ms = 100;
  if (deadline_ns != 0) {
    const uint64_t now = clock_.now_ns();
    timeout_ms = now >= deadline_ns ? 0 : std::min(timeout_ms, (deadline_ns - now) / kNsPerMs + 1);
  }
  zmq_pollitem_t items[] = {{dealer_.handle(), 0, ZMQ_POLLIN, 0},
                            {monitor_.handle(), 0, ZMQ_POLLIN, 0}};
  zmq_poll(items, 2, static_cast<long>(timeout_ms));
}

std::expected<void, CallError> Client::Impl::connect() {
  const std::string& endpoint = options_.endpoint;
  const bool tcp = endpoint.starts_with("tcp://");
  if (tcp) {
    if (!options_.server_key || !options_.client_key)
      return call_fail(
          Kind::kUnreachable, Code::kInvalidArgument,
          fmt::format("{} is encrypted: give the server's public key and a key file of your "
                      "own (`itifctl keygen`)",
                      endpoint));
    dealer_.set(zmq::sockopt::curve_serverkey, zmq::buffer(*options_.server_key));
    dealer_.set(zmq::sockopt::curve_publickey, zmq::buffer(options_.client_key->public_key));
    dealer_.set(zmq::sockopt::curve_secretkey, zmq::buffer(options_.client_key->secret_key));
    dealer_.set(zmq::sockopt::ipv6, true);
    dealer_.set(zmq::sockopt::heartbeat_ivl, 5000);
  } else {
    const auto path = ipc_path(endpoint);
    if (!path) return call_fail(Kind::kUnreachable, Code::kInvalidArgument, path.error().message);
    if (const auto live = probe_ipc(*path); !live) {
      const bool allowed = live.error().code != Code::kPermission;
      return call_fail(Kind::kUnreachable, live.error().code,
                       fmt::format("cannot reach itifd: {}{}", live.error().message,
                                   allowed ? ": start itifd, or name its control.endpoint" : ""));
    }
  }
  dealer_.set(zmq::sockopt::linger, 0);
  // Never reconnect: a request sent in between would be lost without an error. This interval
  // outlasts every call; with -1 libzmq drops answers that arrived just before the connection
  // ended.
  dealer_.set(zmq::sockopt::reconnect_ivl, kNeverMs);
  if (zmq_socket_monitor(dealer_.handle(), kMonitor, kMonitored) != 0)
    return call_fail(Kind::kUnreachable, Code::kInternal, zmq_strerror(zmq_errno()));
  monitor_.set(zmq::sockopt::linger, 0);
  monitor_.connect(kMonitor);
  if (zmq_connect(dealer_.handle(), endpoint.c_str()) != 0)
    return call_fail(Kind::kUnreachable, Code::kInvalidArgument,
                     fmt::format("cannot connect to {}: {}: use ipc:///PATH or tcp://HOST:PORT",
                                 endpoint, zmq_strerror(zmq_errno())));

  const uint64_t deadline = clock_.now_ns() + options_.connect_timeout_ns;
  while (!passed(deadline)) {
    switch (next_event()) {
      case 0: wait(deadline); break;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: return {};
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return call_fail(
            Kind::kUnreachable, Code::kPermission,
            fmt::format("{} refused our key: add its .pub line to the server's authorised "
                        "keys file",
                        endpoint));
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      case ZMQ_EVENT_DISCONNECTED:
        return call_fail(
            Kind::kUnreachable, Code::kPermission,
            fmt::format("{} broke off the handshake: check the server's public key and that "
                        "itifd listens there",
                        endpoint));
      case ZMQ_EVENT_CONNECT_RETRIED:
      case ZMQ_EVENT_CLOSED:
        return call_fail(Kind::kUnreachable, Code::kUnavailable,
                         fmt::format("cannot reach itifd: nobody answers on {}: start itifd with "
                                     "control.tcp_endpoint set, or correct the address",
                                     endpoint));
      default: break;
    }
  }
  return call_fail(Kind::kTimeout, Code::kUnavailable,
                   fmt::format("{} did not complete the handshake in {} ms: check the address, the "
                               "server's public key and the firewall",
                               endpoint, options_.connect_timeout_ns / kNsPerMs));
}

std::expected<json, CallError> Client::Impl::call(const std::string& op, const json& args,
                                                  uint64_t timeout_ns, const Progress& progress) {
  const uint64_t id = next_id_++;
  const json request = {{"v", kMessageVersion}, {"id", id}, {"op", op}, {"args", args}};
  const std::string text = request.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto gone = [&] {
    return call_fail(
        Kind::kUnreachable, Code::kUnavailable,
        fmt::format("itifd closed the connection before it answered {}: see its log; a change may "
                    "have been made or not",
                    op));
  };
  while (next_event() != 0) continue;
  if (disconnected_ || !dealer_.send(zmq::buffer(text), zmq::send_flags::dontwait)) return gone();

  const auto deadline_from_now = [&] { return timeout_ns ? clock_.now_ns() + timeout_ns : 0; };
  uint64_t deadline = deadline_from_now();
  bool all_read = false;
  for (;;) {
    zmq::message_t frame;
    if (dealer_.recv(frame, zmq::recv_flags::dontwait)) {
      const json answer = json::parse(frame.to_string_view(), nullptr, false);
      // An answer to another id belongs to a call that timed out.
      if (!answer.is_object() || answer.value("id", json()) != id) continue;
      if (answer.contains("progress") && answer["progress"].is_object()) {
        const json& step = answer["progress"];
        deadline = deadline_from_now();
        if (progress) progress(step.value("stage", ""), step.value("fraction", 0.0));
        continue;
      }
      if (answer.contains("ok")) return answer["ok"];
      const json error = answer.value("error", json::object());
      return call_fail(Kind::kRefused, parse_code(error.value("code", "")),
                       error.value("message", "the server gave no reason"));
    }
    // Read every message before giving up: the answer may precede the disconnection.
    if (all_read) return gone();
    if (disconnected_) {
      all_read = true;  // after one more look at the messages
      continue;
    }
    if (next_event() != 0) continue;
    if (passed(deadline))
      return call_fail(
          Kind::kTimeout, Code::kUnavailable,
          fmt::format("itifd did not answer {} in {} ms and may still be working on it: look "
                      "at `itifctl health`, or allow more time",
                      op, timeout_ns / kNsPerMs));
    wait(deadline);
  }
}

std::expected<std::unique_ptr<Client>, CallError> Client::connect(const ClientOptions& options,
                                                                  const Clock& clock) try {
  std::unique_ptr<Client> client(new Client(std::make_unique<Impl>(options, clock)));
  if (auto connected = client->impl_->connect(); !connected)
    return std::unexpected(connected.error());
  return client;
} catch (const zmq::error_t& e) {
  return call_fail(Kind::kUnreachable, Code::kInternal, fmt::format("ZeroMQ: {}", e.what()));
}

std::expected<json, CallError> Client::call(const std::string& op, const json& args,
                                            uint64_t timeout_ns, const Progress& progress) try {
  return impl_->call(op, args, timeout_ns, progress);
} catch (const zmq::error_t& e) {
  return call_fail(Kind::kUnreachable, Code::kInternal, fmt::format("ZeroMQ: {}", e.what()));
} catch (const json::exception& e) {
  return call_fail(Kind::kRefused, Code::kInternal,
                   fmt::format("the server's answer: {}", e.what()));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

}  // namespace itif::control
