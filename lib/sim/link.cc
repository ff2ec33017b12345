#include "sim/link.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace itif::sim {
namespace {

constexpr size_t kMacBytes = 12, kEthernet = 14, kIpv4 = 20, kUdp = 8;
constexpr size_t kHeaders = kEthernet + kIpv4 + kUdp;
// Preamble, frame check sequence and gap between frames (IEEE 802.3).
constexpr size_t kFrameOverhead = 8 + 4 + 12;
constexpr net::MacAddress kClientMac = {2, 0, 0, 0, 0, 9};

void put16(std::byte* at, unsigned value) {
  at[0] = static_cast<std::byte>(value >> 8);
  at[1] = static_cast<std::byte>(value);
}
unsigned get16(const std::byte* at) {
  return std::to_integer<unsigned>(at[0]) << 8 | std::to_integer<unsigned>(at[1]);
}

// Writes the Ethernet, IPv4 and UDP headers of a datagram of `payload` bytes.
void write_headers(const net::MacAddress& to, uint32_t flow, size_t payload, std::byte* out) {
  std::memset(out, 0, kHeaders);
  std::memcpy(out, to.data(), to.size());
  std::memcpy(out + to.size(), kClientMac.data(), kClientMac.size());
  put16(out + kMacBytes, 0x0800);
  std::byte* ip = out + kEthernet;
  ip[0] = std::byte{0x45};
  put16(ip + 2, static_cast<unsigned>(kIpv4 + kUdp + payload));
  ip[6] = std::byte{0x40};  // do not fragment
  ip[8] = std::byte{64};
  ip[9] = std::byte{17};
  std::memcpy(ip + 12, kClientAddress.data(), 4);
  std::memcpy(ip + 16, kServerAddress.data(), 4);
  uint32_t sum = 0;
  for (size_t i = 0; i < kIpv4; i += 2) sum += get16(ip + i);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  put16(ip + 10, ~sum & 0xffff);
  std::byte* udp = ip + kIpv4;
  put16(udp, kFirstClientPort + flow);
  put16(udp + 2, kServerPort);
  put16(udp + 4, static_cast<unsigned>(kUdp + payload));
}

}  // namespace

Link::Link(const VirtualClock& clock, Nic& nic, const LinkOptions& options, uint32_t num_flows,
           uint64_t seed)
    : clock_(clock), nic_(nic), options_(options), num_flows_(num_flows), random_(seed) {
  up_.first_damaged_byte = kMacBytes;
}

uint32_t Link::acquire(std::span<const std::byte> bytes) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(buffers_.size()));
    buffers_.emplace_back();
  }
  const uint32_t buffer = free_.back();
  free_.pop_back();
  buffers_[buffer].assign(bytes.begin(), bytes.end());
  return buffer;
}

void Link::enter(Direction& direction, uint32_t flow, std::span<const std::byte> bytes) {
  ++figures_.sent;
  const double wire_bits = 8.0 * static_cast<double>(bytes.size() + kFrameOverhead);
  direction.free_at_ns = std::max(direction.free_at_ns, clock_.now_ns()) +
                         static_cast<uint64_t>(std::ceil(wire_bits / options_.rate_bps * 1e9));
  if (options_.loss > 0 && random_.uniform() < options_.loss) {
    ++figures_.lost;
    return;
  }
  const bool twice = options_.duplication > 0 && random_.uniform() < options_.duplication;
  figures_.duplicated += twice;
  for (int copy = 0; copy <= twice; ++copy) {
    Packet packet{.at_ns = direction.free_at_ns + options_.delay_ns,
                  .order = order_++,
                  .flow = flow,
                  .buffer = acquire(bytes)};
    if (options_.jitter_ns > 0) packet.at_ns += random_.below(options_.jitter_ns);
    if (options_.corruption > 0 && random_.uniform() < options_.corruption &&
        bytes.size() > direction.first_damaged_byte) {
      ++figures_.damaged;
      Bytes& damaged = buffers_[packet.buffer];
      const size_t at = direction.first_damaged_byte +
                        random_.below(damaged.size() - direction.first_damaged_byte);
      damaged[at] ^= static_cast<std::byte>(1 + random_.below(255));
    }
    direction.packets.push(packet);
  }
}

size_t Link::send(uint32_t flow, std::span<const client::Outgoing> batch) noexcept {
  for (const client::Outgoing& datagram : batch) {
    const size_t payload = datagram.head.size() + datagram.body.size();
    frame_.resize(kHeaders + payload);
    write_headers(nic_.port().info().mac, flow, payload, frame_.data());
    std::memcpy(frame_.data() + kHeaders, datagram.head.data(), datagram.head.size());
    if (!datagram.body.empty())
      std::memcpy(frame_.data() + kHeaders + datagram.head.size(), datagram.body.data(),
                  datagram.body.size());
    enter(up_, flow, frame_);
  }
  return batch.size();
}

size_t Link::deliver() {
  size_t count = 0;
  while (!up_.packets.empty() && up_.packets.top().at_ns <= clock_.now_ns()) {
    const Packet packet = up_.packets.top();
    up_.packets.pop();
    figures_.missed += !nic_.deliver(buffers_[packet.buffer]);
    free_.push_back(packet.buffer);
    ++count;
  }
  return count;
}

size_t Link::collect() {
  return nic_.take_sent([this](std::span<const std::byte> frame) {
    // Announcements (ARP, neighbour discovery) are for switches.
    if (frame.size() < kHeaders || get16(frame.data() + kMacBytes) != 0x0800) return;
    const std::byte* udp = frame.data() + kEthernet + kIpv4;
    const size_t payload =
        std::min<size_t>(get16(udp + 4), frame.size() - kEthernet - kIpv4) - kUdp;
    const uint32_t flow = get16(udp + 2) - kFirstClientPort;
    if (flow < num_flows_) enter(down_, flow, frame.subspan(kHeaders, payload));
  });
}

size_t Link::receive(std::span<client::Incoming> batch) noexcept {
  for (const uint32_t buffer : received_) free_.push_back(buffer);
  received_.clear();
  while (received_.size() < batch.size() && !down_.packets.empty() &&
         down_.packets.top().at_ns <= clock_.now_ns()) {
    const Packet packet = down_.packets.top();
    down_.packets.pop();
    batch[received_.size()] = {.flow = packet.flow, .bytes = buffers_[packet.buffer]};
    received_.push_back(packet.buffer);
  }
  return received_.size();
}

void Link::clear() {
  for (Direction* direction : {&up_, &down_})
    for (; !direction->packets.empty(); direction->packets.pop())
      free_.push_back(direction->packets.top().buffer);
}

uint64_t Link::next_event_ns() const noexcept {
  uint64_t next_ns = UINT64_MAX;
  for (const Direction* direction : {&up_, &down_})
    if (!direction->packets.empty()) next_ns = std::min(next_ns, direction->packets.top().at_ns);
  return next_ns;
}

}  // namespace itif::sim
