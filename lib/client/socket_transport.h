// A transport over UDP sockets: one connected socket per flow, batches by sendmmsg/recvmmsg, IPv4
// or IPv6, no IP fragmentation. One owner thread.
//
// The kernel and ICMP report servers that cannot be reached: no route, no neighbour, a closed port.
// The transport goes on sending then, because a server may restart: unreachable() says so, and its
// owner decides.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "client/transport.h"
#include "wire/header.h"

namespace itif::client {

struct SocketOptions {
  std::string server = {};  // IPv4 or IPv6 address (scope allowed), or a host name
  uint16_t port = wire::kDefaultPort;
  std::string local = {};                    // address to send from; empty: chosen by the route
  uint32_t num_flows = 1;                    // sockets, each with its own source port
  uint32_t receive_buffer_bytes = 4u << 20;  // per socket; the kernel may grant less
  uint32_t send_buffer_bytes = 4u << 20;
  uint32_t busy_poll_us = 0;  // SO_BUSY_POLL; 0: leave the system's setting
};

// Parses "198.18.0.1", "198.18.0.1:9009", "fd00::1", "[fd00::1]:9009", "name" or "name:9009" into
// options.server and, if the text has a port, options.port. Errors: kInvalidArgument.
Result<SocketOptions> parse_server(const std::string& text, SocketOptions options = {});

struct SocketStats {
  uint64_t received = 0;     // datagrams
  uint64_t too_big = 0;      // EMSGSIZE: above the path MTU; choose smaller pieces
  uint64_t unreachable = 0;  // a closed port, no host, no route, a firewall
  uint64_t other_errors = 0;
  int last_errno = 0;
};

// The two ends of a flow.
struct SocketAddresses {
  uint8_t ip_version = 4;
  std::array<uint8_t, 16> local{};  // IPv4: the first 4 bytes
  std::array<uint8_t, 16> server{};
  uint16_t local_port = 0;  // host order
  uint16_t server_port = 0;
};

class SocketTransport final : public Transport {
 public:
  // Errors: kNotFound (host name), kInvalidArgument, kPermission, kResourceExhausted, kUnavailable;
  // the message names the server and the remedy.
  static Result<std::unique_ptr<SocketTransport>> connect(const SocketOptions& options);
  ~SocketTransport() override;

  uint32_t num_flows() const noexcept override;
  size_t send(uint32_t flow, std::span<const Outgoing> batch) noexcept override;
  size_t receive(std::span<Incoming> batch) noexcept override;
  void wait(uint64_t timeout_ns) noexcept override;

  const SocketStats& stats() const noexcept;
  // Why nothing arrives, with the remedy: the server cannot be reached, as the kernel or ICMP says.
  // nullopt: neither says so, or a datagram has arrived at any time. Errors' code: kUnavailable.
  std::optional<Error> unreachable() const;
  // Returns the receive buffer size that the kernel granted.
  uint32_t receive_buffer_bytes() const noexcept;
  uint16_t local_port(uint32_t flow) const noexcept;
  SocketAddresses addresses(uint32_t flow) const noexcept;
  // Returns how many datagrams the kernel has dropped because a socket's receive buffer was full.
  uint64_t receive_drops() const noexcept;

 private:
  struct Sockets;
  explicit SocketTransport(std::unique_ptr<Sockets> sockets);
  std::unique_ptr<Sockets> sockets_;
};

}  // namespace itif::client
