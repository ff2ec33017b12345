// The server's ZeroMQ sockets. The I/O thread owns them once it runs.
//
// ROUTER sockets receive requests: one on ipc (protected by the file's mode) and, if configured,
// one on TCP. The TCP socket gets its CURVE keys before it is bound; without keys it is not opened.
// An XPUB socket sends events: it sees subscriptions, so stats are gathered only for subscribers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "base/error.h"
#include "control/outbox.h"
#include "control/server_options.h"
#include "control/zap.h"

namespace itif::control {

class Sockets {
 public:
  // Errors: as Server::open.
  static Result<std::unique_ptr<Sockets>> bind(const ServerOptions& options);
  ~Sockets();

  // OnRequest gets a request's single frame; OnGarbage is called if there is not exactly one.
  using OnRequest = std::function<void(const Peer& peer, std::string_view bytes)>;
  using OnGarbage = std::function<void(const Peer& peer, size_t num_frames)>;

  // Waits for a message, for wake_fd to be readable, or timeout_ms (-1: no limit).
  void wait(int wake_fd, int timeout_ms);
  // Handles waiting messages, a bounded number per socket so that none starves the others.
  void receive(const OnRequest& on_request, const OnGarbage& on_garbage);
  // Never blocks. Drops the message if the peer is gone or does not read.
  void send(const Outgoing& outgoing);
  bool has_stats_subscribers() const { return !stats_topics_.empty(); }

 private:
  Sockets() = default;
  Status bind_ipc(zmq::socket_t& socket, const std::string& endpoint);
  Status bind_tcp(const ServerOptions& options);
  void receive_request(size_t router, const OnRequest& on_request, const OnGarbage& on_garbage);
  void receive_subscriptions();

  zmq::context_t context_{1};
  std::optional<ZapHandler> zap_;
  std::vector<zmq::socket_t> routers_;
  std::optional<zmq::socket_t> publisher_;
  std::vector<std::string> socket_files_;
  std::set<std::string> stats_topics_;  // subscriptions that match "stats"
};

}  // namespace itif::control
