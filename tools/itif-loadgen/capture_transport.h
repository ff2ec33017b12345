// Writes the datagrams of a socket transport to a capture file, behind Ethernet, IP and UDP headers
// with the sockets' addresses. The MAC addresses are made up: 02:00:00:00:00:01 is ours,
// 02:00:00:00:00:02 the server's.
#pragma once

#include <memory>
#include <vector>

#include "client/socket_transport.h"
#include "net/address.h"
#include "pcap_file.h"

namespace itif::loadgen {

class CaptureTransport final : public client::Transport {
 public:
  // REQUIRES: file outlives the transport.
  CaptureTransport(std::unique_ptr<client::SocketTransport> sockets, PcapFile& file);

  uint32_t num_flows() const noexcept override { return sockets_->num_flows(); }
  // Writes the datagrams that the sockets have taken.
  size_t send(uint32_t flow, std::span<const client::Outgoing> batch) noexcept override;
  size_t receive(std::span<client::Incoming> batch) noexcept override;
  void wait(uint64_t timeout_ns) noexcept override { sockets_->wait(timeout_ns); }

  const client::SocketTransport& sockets() const noexcept { return *sockets_; }

 private:
  // A flow's ends as the sender of each direction sees them.
  struct Ends {
    net::Endpoint outgoing, incoming;
  };

  std::unique_ptr<client::SocketTransport> sockets_;
  PcapFile& file_;
  std::vector<Ends> ends_;  // by flow
};

}  // namespace itif::loadgen
