#include "packet.h"

#include <arpa/inet.h>

namespace itif::net::test {
namespace {

void append(Frame& frame, std::span<const std::byte> bytes) {
  frame.insert(frame.end(), bytes.begin(), bytes.end());
}
void append16(Frame& frame, unsigned value) {
  frame.push_back(static_cast<std::byte>(value >> 8));
  frame.push_back(static_cast<std::byte>(value));
}
void append_mac(Frame& frame, const MacAddress& mac) {
  for (uint8_t byte : mac) frame.push_back(std::byte{byte});
}

uint64_t plain_sum(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    sum += static_cast<uint64_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  return sum;
}

}  // namespace

uint16_t plain_checksum(std::span<const std::byte> bytes, uint64_t sum) {
  sum += plain_sum(bytes);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void put16(Frame& frame, size_t at, uint16_t value) {
  frame.at(at) = static_cast<std::byte>(value >> 8);
  frame.at(at + 1) = static_cast<std::byte>(value);
}

Frame ip_bytes(int version, const std::string& text) {
  Frame bytes(version == 4 ? 4 : 16);
  EXPECT_EQ(inet_pton(version == 4 ? AF_INET : AF_INET6, text.c_str(), bytes.data()), 1) << text;
  return bytes;
}

void fix_ipv4_checksum(Frame& frame, size_t ip) {
  put16(frame, ip + 10, 0);
  const size_t bytes = (static_cast<size_t>(frame[ip]) & 0xf) * 4;
  put16(frame, ip + 10, plain_checksum(std::span(frame).subspan(ip, bytes)));
}

void finish_icmp_v6(Frame& message, const std::string& source, const std::string& destination) {
  put16(message, 2, 0);
  const uint64_t sum =
      plain_sum(ip_bytes(6, source)) + plain_sum(ip_bytes(6, destination)) + message.size() + 58;
  put16(message, 2, plain_checksum(message, sum));
}

Frame Packet::build() const {
  Frame frame;
  append_mac(frame, destination);
  append_mac(frame, source);
  for (const auto& [tpid, tci] : vlans) {
    append16(frame, tpid);
    append16(frame, tci);
  }
  append16(frame, version == 4 ? 0x0800 : 0x86dd);

  Frame l4;
  const Frame from = ip_bytes(version, source_ip), to = ip_bytes(version, destination_ip);
  if (protocol == 17) {
    append16(l4, source_port);
    append16(l4, destination_port);
    append16(l4, static_cast<unsigned>(8 + payload.size()));
    append16(l4, 0);
    append(l4, payload);
    uint16_t right = plain_checksum(l4, plain_sum(from) + plain_sum(to) + 17 + l4.size());
    if (right == 0) right = 0xffff;
    put16(l4, 6, checksum < 0 ? right : static_cast<uint16_t>(checksum));
  } else {
    l4 = payload;
  }

  const size_t ip = frame.size();
  if (version == 4) {
    frame.push_back(static_cast<std::byte>(0x45 + ipv4_options.size() / 4));
    frame.push_back(std::byte{0});
    append16(frame, static_cast<unsigned>(20 + ipv4_options.size() + l4.size()));
    append16(frame, 0x1234);
    append16(frame, flags_and_fragment);
    frame.push_back(static_cast<std::byte>(hop_limit));
    frame.push_back(static_cast<std::byte>(protocol));
    append16(frame, 0);
    append(frame, from);
    append(frame, to);
    append(frame, ipv4_options);
    fix_ipv4_checksum(frame, ip);
  } else {
    Frame chain;
    for (size_t i = 0; i < extensions.size(); ++i) {
      const Frame& body = extensions[i].second;
      chain.push_back(
          static_cast<std::byte>(i + 1 < extensions.size() ? extensions[i + 1].first : protocol));
      chain.push_back(static_cast<std::byte>((body.size() + 2) / 8 - 1));
      append(chain, body);
    }
    append(frame, bytes_of({0x60, 0, 0, 0}));
    append16(frame, static_cast<unsigned>(chain.size() + l4.size()));
    frame.push_back(static_cast<std::byte>(extensions.empty() ? protocol : extensions[0].first));
    frame.push_back(static_cast<std::byte>(hop_limit));
    append(frame, from);
    append(frame, to);
    append(frame, chain);
  }
  append(frame, l4);
  frame.resize(frame.size() + padding, std::byte{0xee});
  return frame;
}

LocalAddresses local_addresses(uint16_t vlan) {
  const Result<LocalAddresses> local =
      make_local_addresses(kOurMac, {{"198.18.0.1/24"}, {"fd00::1/64"}, kOurPort, vlan});
  EXPECT_TRUE(local);
  return *local;
}

}  // namespace itif::net::test
