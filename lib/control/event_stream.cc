// EventStream (client.h): a SUB socket on the server's events endpoint.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include "control/client.h"
#include "control/ipc_endpoint.h"

namespace itif::control {
namespace {

using nlohmann::json;

std::unexpected<CallError> unreachable(Code code, std::string message) {
  return std::unexpected(CallError{CallError::Kind::kUnreachable, {code, std::move(message)}});
}

}  // namespace

class EventStream::Impl {
 public:
  zmq::context_t context{1};
  zmq::socket_t subscriber{context, zmq::socket_type::sub};
};

std::expected<std::unique_ptr<EventStream>, CallError> EventStream::subscribe(
    const std::string& events_endpoint, bool with_stats) try {
  const auto path = ipc_path(events_endpoint);
  if (!path) return unreachable(path.error().code, path.error().message);
  if (const auto live = probe_ipc(*path); !live)
    return unreachable(live.error().code,
                       fmt::format("cannot reach itifd's events: {}: start itifd, or "
                                   "set its control.events_endpoint",
                                   live.error().message));
  auto impl = std::make_unique<Impl>();
  impl->subscriber.set(zmq::sockopt::linger, 0);
  impl->subscriber.set(zmq::sockopt::subscribe, "event");
  if (with_stats) impl->subscriber.set(zmq::sockopt::subscribe, "stats");
  impl->subscriber.connect(events_endpoint);
  return std::unique_ptr<EventStream>(new EventStream(std::move(impl)));
} catch (const zmq::error_t& e) {
  return unreachable(Code::kInternal, fmt::format("ZeroMQ: {}", e.what()));
}

std::optional<json> EventStream::next(int timeout_ms) try {
  zmq_pollitem_t item = {impl_->subscriber.handle(), 0, ZMQ_POLLIN, 0};
  if (zmq_poll(&item, 1, timeout_ms) <= 0) return std::nullopt;
  zmq::message_t frame;
  if (!impl_->subscriber.recv(frame, zmq::recv_flags::dontwait)) return std::nullopt;
  while (frame.more()) (void)impl_->subscriber.recv(frame);  // the topic, then the message
  json message = json::parse(frame.to_string_view(), nullptr, false);
  return message.is_object() ? std::optional(std::move(message)) : std::nullopt;
} catch (const zmq::error_t&) {
  return std::nullopt;
}

EventStream::EventStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventStream::~EventStream() = default;

}  // namespace itif::control
