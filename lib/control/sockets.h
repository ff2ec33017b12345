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

  // As bind(), after another process has released its endpoints. It has the TCP port until it ends:
  // call try_tcp() until then.
  static Result<std::unique_ptr<Sockets>> bind_after(const ServerOptions& options);
  bool waits_for_tcp() const { return !waiting_tcp_endpoint_.empty(); }
  void try_tcp();

  // Renames the socket files, so that another process can make its own. Connections and the TCP
  // port stay: libzmq's unbind would end the connections. Any thread.
  Status release_endpoints();
  // Undoes release_endpoints(). Any thread. Errors: kPermission.
  Status take_back_endpoints();

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
  Status bind_tcp(zmq::socket_t& socket, const ServerOptions& options);
  Status bind_all(const ServerOptions& options);
  static Result<std::unique_ptr<Sockets>> make(const ServerOptions& options, bool after);
  void receive_request(size_t router, const OnRequest& on_request, const OnGarbage& on_garbage);
  void receive_subscriptions();

  zmq::context_t context_{1};
  std::optional<ZapHandler> zap_;
  std::vector<zmq::socket_t> routers_;  // ipc, then TCP if configured
  std::optional<zmq::socket_t> publisher_;
  std::vector<std::string> socket_files_;
  bool released_ = false;               // the files have other names
  bool after_ = false;                  // another process may have the TCP port
  std::string waiting_tcp_endpoint_;    // another process has the port; empty: none
  std::set<std::string> stats_topics_;  // subscriptions that match "stats"
};

}  // namespace itif::control
