#include "capture_transport.h"

#include <array>
#include <utility>

#include "net/checksum.h"
#include "net/frame_writer.h"
#include "net/header_bytes.h"

namespace itif::loadgen {
namespace {

constexpr net::MacAddress kOurMac{0x02, 0, 0, 0, 0, 0x01}, kServerMac{0x02, 0, 0, 0, 0, 0x02};
constexpr uint8_t kHopLimit = 64;
constexpr size_t kMostHeaderBytes = 14 + 40 + 8;  // Ethernet, IPv6, UDP

net::Endpoint outgoing_of(const client::SocketAddresses& addresses) {
  net::Endpoint endpoint;
  endpoint.our_mac = kOurMac;
  endpoint.peer_mac = kServerMac;
  endpoint.ip_version = addresses.ip_version;
  endpoint.our_address = addresses.local;
  endpoint.peer_address = addresses.server;
  endpoint.our_port = addresses.local_port;
  endpoint.peer_port = addresses.server_port;
  return endpoint;
}

net::Endpoint reversed(const net::Endpoint& endpoint) {
  net::Endpoint other = endpoint;
  std::swap(other.our_mac, other.peer_mac);
  std::swap(other.our_address, other.peer_address);
  std::swap(other.our_port, other.peer_port);
  return other;
}

// Writes a frame from endpoint's own end to its peer, whose datagram is head followed by body.
void write_frame(PcapFile& file, const net::Endpoint& endpoint, std::span<const std::byte> head,
                 std::span<const std::byte> body) noexcept {
  std::array<std::byte, kMostHeaderBytes> headers;
  const size_t udp_bytes = net::kUdpBytes + head.size() + body.size();
  const size_t at =
      net::write_l3_headers(headers.data(), endpoint, net::kProtocolUdp, udp_bytes, kHopLimit);
  std::byte* const udp = headers.data() + at;
  net::store_be16(udp, endpoint.our_port);
  net::store_be16(udp + 2, endpoint.peer_port);
  net::store_be16(udp + 4, static_cast<uint16_t>(udp_bytes));
  net::store_be16(udp + 6, 0);
  uint32_t sum =
      net::pseudo_header_sum(endpoint, net::kProtocolUdp, static_cast<uint32_t>(udp_bytes));
  sum = net::ones_sum({udp, net::kUdpBytes}, sum);
  sum = net::ones_sum(head, sum);
  sum = net::ones_sum(body, sum);
  const auto checksum = static_cast<uint16_t>(~sum);
  net::store_be16(udp + 6, checksum == 0 ? 0xffff : checksum);
  const std::span<const std::byte> parts[] = {std::span(headers).first(at + net::kUdpBytes), head,
                                              body};
  file.write(parts);
}

}  // namespace

CaptureTransport::CaptureTransport(std::unique_ptr<client::SocketTransport> sockets, PcapFile& file)
    : sockets_(std::move(sockets)), file_(file) {
  for (uint32_t flow = 0; flow < sockets_->num_flows(); ++flow) {
    const net::Endpoint outgoing = outgoing_of(sockets_->addresses(flow));
    ends_.push_back({.outgoing = outgoing, .incoming = reversed(outgoing)});
  }
}

size_t CaptureTransport::send(uint32_t flow, std::span<const client::Outgoing> batch) noexcept {
  const size_t taken = sockets_->send(flow, batch);
  for (const client::Outgoing& datagram : batch.first(taken))
    write_frame(file_, ends_[flow].outgoing, datagram.head, datagram.body);
  return taken;
}

size_t CaptureTransport::receive(std::span<client::Incoming> batch) noexcept {
  const size_t count = sockets_->receive(batch);
  for (const client::Incoming& datagram : batch.first(count))
    write_frame(file_, ends_[datagram.flow].incoming, datagram.bytes, {});
  return count;
}

}  // namespace itif::loadgen
