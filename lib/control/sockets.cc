#include "control/sockets.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/log.h"
#include "control/curve.h"
#include "control/ipc_endpoint.h"
#include "control/message.h"

namespace itif::control {
namespace {

constexpr int kQueuedMessages = 1000;  // per connection and direction
constexpr int kLingerMs = 500;
constexpr int kHeartbeatMs = 5000;  // finds dead TCP peers
constexpr int kMaxPerTurn = 64;
constexpr const char* kReleased = ".handed-over";  // after a socket file's name
constexpr std::string_view kStatsTopic = "stats";

// Bounds the queues, and the frame length that libzmq allocates when a peer announces it.
void set_limits(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, kLingerMs);
  socket.set(zmq::sockopt::sndhwm, kQueuedMessages);
  socket.set(zmq::sockopt::rcvhwm, kQueuedMessages);
  socket.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(kMaxFrameBytes));
}

}  // namespace

Result<std::unique_ptr<Sockets>> Sockets::bind(const ServerOptions& options) {
  return make(options, false);
}

Result<std::unique_ptr<Sockets>> Sockets::bind_after(const ServerOptions& options) {
  return make(options, true);
}

Result<std::unique_ptr<Sockets>> Sockets::make(const ServerOptions& options, bool after) try {
  std::unique_ptr<Sockets> sockets(new Sockets);
  sockets->after_ = after;
  // The handler is made before any socket is bound and destroyed after all are closed (order of the
  // members): without a handler libzmq accepts every TCP client.
  sockets->zap_.emplace(sockets->context_, options.tcp_endpoint.empty()
                                               ? std::string()
                                               : options.authorized_keys_file);
  for (size_t i = 0; i < (options.tcp_endpoint.empty() ? 1 : 2); ++i)
    set_limits(sockets->routers_.emplace_back(sockets->context_, zmq::socket_type::router));
  if (!options.events_endpoint.empty()) {
    sockets->publisher_.emplace(sockets->context_, zmq::socket_type::xpub);
    set_limits(*sockets->publisher_);
  }
  ITIF_TRY(sockets->bind_all(options));
  return sockets;
} catch (const zmq::error_t& e) {
  return fail(Code::kInternal, fmt::format("control: ZeroMQ: {}", e.what()));
}

Sockets::~Sockets() {
  for (const std::string& path : socket_files_)
    ::unlink((released_ ? path + kReleased : path).c_str());
}

Status Sockets::bind_all(const ServerOptions& options) {
  ITIF_TRY(bind_ipc(routers_[0], options.endpoint));
  if (routers_.size() > 1) ITIF_TRY(bind_tcp(routers_[1], options));
  if (publisher_) ITIF_TRY(bind_ipc(*publisher_, options.events_endpoint));
  return {};
}

void Sockets::try_tcp() {
  if (zmq_bind(routers_[1].handle(), waiting_tcp_endpoint_.c_str()) == 0)
    log::info("control: {} is this process's now", std::exchange(waiting_tcp_endpoint_, {}));
}

Status Sockets::release_endpoints() {
  released_ = true;
  for (const std::string& path : socket_files_)
    if (::rename(path.c_str(), (path + kReleased).c_str()) != 0)
      return fail(Code::kPermission, fmt::format("cannot rename {}: {}", path, errno_text(errno)));
  return {};
}

Status Sockets::take_back_endpoints() {
  Status status;
  for (const std::string& path : socket_files_)
    if (::rename((path + kReleased).c_str(), path.c_str()) != 0 && errno != ENOENT)
      status = fail(Code::kPermission,
                    fmt::format("cannot rename {}{}: {}", path, kReleased, errno_text(errno)));
  released_ = false;
  return status;
}

Status Sockets::bind_ipc(zmq::socket_t& socket, const std::string& endpoint) {
  ITIF_ASSIGN(const std::string path, ipc_path(endpoint));
  ITIF_ASSIGN(Descriptor listener, listen_on_ipc(path));
  socket_files_.push_back(path);
  socket.set(zmq::sockopt::zap_domain, std::string(ZapHandler::kLocalDomain));
  // Pass our listener: libzmq would unlink a live server's socket and take the mode from the umask.
  const int fd = listener.get();
  if (zmq_setsockopt(socket.handle(), ZMQ_USE_FD, &fd, sizeof fd) != 0 ||
      zmq_bind(socket.handle(), endpoint.c_str()) != 0)
    return fail(Code::kInternal,
                fmt::format("cannot bind {}: {}", endpoint, zmq_strerror(zmq_errno())));
  listener.release();
  return {};
}

Status Sockets::bind_tcp(zmq::socket_t& socket, const ServerOptions& options) {
  const std::string& endpoint = options.tcp_endpoint;
  if (!endpoint.starts_with("tcp://"))
    return fail(Code::kInvalidArgument,
                fmt::format("control.tcp_endpoint '{}' must be tcp://ADDRESS:PORT", endpoint));
  if (options.curve_secret_file.empty() || options.authorized_keys_file.empty())
    return fail(Code::kInvalidArgument,
                fmt::format("control.tcp_endpoint {} needs control.curve_secret_file and "
                            "control.authorized_keys_file: make keys with `itifctl keygen`",
                            endpoint));
  ITIF_ASSIGN(const CurveKeyPair keys, read_key_pair(options.curve_secret_file));
  ITIF_ASSIGN(const auto authorized, read_authorized_keys(options.authorized_keys_file));
  if (authorized.empty())
    log::warning("{} lists no key: no client can connect over TCP yet",
                 options.authorized_keys_file);
  socket.set(zmq::sockopt::ipv6, true);
  socket.set(zmq::sockopt::heartbeat_ivl, kHeartbeatMs);
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, zmq::buffer(keys.secret_key));
  socket.set(zmq::sockopt::zap_domain, std::string(ZapHandler::kDomain));
  if (zmq_bind(socket.handle(), endpoint.c_str()) == 0) return {};
  if (after_ && zmq_errno() == EADDRINUSE) {
    waiting_tcp_endpoint_ = endpoint;
    return {};
  }
  switch (const int error = zmq_errno()) {
    case EADDRINUSE:
      return fail(Code::kUnavailable,
                  fmt::format("{} is busy: another program listens there (`ss -ltnp` "
                              "names it): stop it, or set another port",
                              endpoint));
    case EACCES:
      return fail(
          Code::kPermission,
          fmt::format("cannot bind {}: ports below 1024 are root's: set another port", endpoint));
    default:
      return fail(
          Code::kInvalidArgument,
          fmt::format("cannot bind {}: {}: control.tcp_endpoint must be tcp://ADDRESS:PORT with "
                      "an address of this machine",
                      endpoint, zmq_strerror(error)));
  }
}

void Sockets::wait(int wake_fd, int timeout_ms) {
  std::vector<zmq::pollitem_t> items = {{nullptr, wake_fd, ZMQ_POLLIN, 0}};
  for (zmq::socket_t& router : routers_) items.push_back({router.handle(), 0, ZMQ_POLLIN, 0});
  if (zap_) items.push_back({zap_->socket().handle(), 0, ZMQ_POLLIN, 0});
  if (publisher_) items.push_back({publisher_->handle(), 0, ZMQ_POLLIN, 0});
  // EINTR needs no handling: the caller polls every socket anyway.
  zmq_poll(items.data(), static_cast<int>(items.size()), timeout_ms);
}

void Sockets::receive(const OnRequest& on_request, const OnGarbage& on_garbage) {
  if (zap_) zap_->poll();
  for (size_t i = 0; i < routers_.size(); ++i) {
    for (int n = 0; n < kMaxPerTurn && (routers_[i].get(zmq::sockopt::events) & ZMQ_POLLIN); ++n)
      receive_request(i, on_request, on_garbage);
  }
  if (publisher_) receive_subscriptions();
}

void Sockets::receive_request(size_t router, const OnRequest& on_request,
                              const OnGarbage& on_garbage) {
  zmq::socket_t& socket = routers_[router];
  zmq::message_t frame;
  if (!socket.recv(frame, zmq::recv_flags::dontwait)) return;
  Peer peer{router, frame.to_string(), false};
  // A DEALER sends one frame; a REQ sends an empty frame before it. A message with more frames is
  // read to its end and refused.
  zmq::message_t body;
  size_t num_frames = 0;
  while (frame.more()) {
    if (!socket.recv(frame, zmq::recv_flags::dontwait)) return;
    if (!peer.delimiter && num_frames == 0 && frame.size() == 0 && frame.more()) {
      peer.delimiter = true;
      continue;
    }
    if (++num_frames > 1) continue;
    const bool more = frame.more();
    body = std::move(frame);
    if (!more) return on_request(peer, {static_cast<const char*>(body.data()), body.size()});
    frame.rebuild();
    // The move took the frame's `more` flag, so ask the socket instead.
    while (socket.get(zmq::sockopt::rcvmore)) {
      if (!socket.recv(frame, zmq::recv_flags::dontwait)) return;
      ++num_frames;
    }
  }
  on_garbage(peer, num_frames);
}

void Sockets::receive_subscriptions() {
  zmq::message_t frame;
  for (int n = 0; n < kMaxPerTurn && publisher_->recv(frame, zmq::recv_flags::dontwait); ++n) {
    const std::string_view bytes = frame.to_string_view();
    if (bytes.empty()) continue;
    const std::string_view topic = bytes.substr(1);
    if (!kStatsTopic.starts_with(topic)) continue;
    if (bytes[0] == 1) stats_topics_.emplace(topic);
    if (bytes[0] == 0) stats_topics_.erase(std::string(topic));
  }
}

void Sockets::send(const Outgoing& outgoing) try {
  const auto put = [](zmq::socket_t& socket, std::string_view bytes, bool more) {
    const auto flags =
        zmq::send_flags::dontwait | (more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    return socket.send(zmq::const_buffer(bytes.data(), bytes.size()), flags).has_value();
  };
  if (const auto* reply = std::get_if<Reply>(&outgoing)) {
    zmq::socket_t& socket = routers_[reply->peer.router];
    if (put(socket, reply->peer.routing_id, true) &&
        (!reply->peer.delimiter || put(socket, "", true)))
      put(socket, reply->message, false);
  } else if (publisher_) {
    const Event& event = std::get<Event>(outgoing);
    if (put(*publisher_, event.topic, true)) put(*publisher_, event.message, false);
  }
} catch (const zmq::error_t& e) {
  log::warning("control: a message could not be sent: {}", e.what());
}

}  // namespace itif::control
