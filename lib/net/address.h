// The addresses a port answers for, and the peer's address to which an answer goes.
//
// Answers go back to the MAC address, VLAN and IP address that the question came from, so the data
// plane needs no neighbour table, no routes and no ARP requests of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace itif::net {

using MacAddress = std::array<uint8_t, 6>;
using Ipv4Address = std::array<uint8_t, 4>;   // network order
using Ipv6Address = std::array<uint8_t, 16>;  // network order

// "198.18.0.1" or "198.18.0.1/24"; the prefix length is checked and not used, as we never route.
// Errors: kInvalidArgument, with the text; also for addresses that no host can own.
Result<Ipv4Address> parse_ipv4(std::string_view text);
Result<Ipv6Address> parse_ipv6(std::string_view text);
// Whether one host can own the address: not unspecified, loopback, multicast or (IPv4) reserved.
// What claims to come from any other address is never answered.
bool can_be_host(const Ipv4Address& address) noexcept;
bool can_be_host(const Ipv6Address& address) noexcept;
std::string format_mac(const MacAddress& mac);
std::string format_ipv4(const Ipv4Address& address);
std::string format_ipv6(const Ipv6Address& address);

// fe80::/64 with the modified EUI-64 of the MAC. Source: RFC 4291, appendix A.
Ipv6Address link_local(const MacAddress& mac);

// What one port answers for. Immutable once workers run.
struct LocalAddresses {
  MacAddress mac{};
  std::vector<Ipv4Address> ipv4;
  std::vector<Ipv6Address> ipv6;  // with the link-local one: see make_local_addresses
  uint16_t udp_port = 0;          // host order
  uint16_t vlan = 0;  // 0: untagged and priority-tagged frames only; else also this VLAN

  bool owns(const Ipv4Address& address) const noexcept;
  bool owns(const Ipv6Address& address) const noexcept;
};

struct AddressConfig {
  std::vector<std::string> ipv4;
  std::vector<std::string> ipv6;
  uint16_t udp_port = 0;
  uint16_t vlan = 0;
};
// Adds the link-local address. Errors: as parse_ipv4; a VLAN above 4094; port 0.
Result<LocalAddresses> make_local_addresses(const MacAddress& mac, const AddressConfig& config);

// The two ends of a conversation, as seen from here.
struct Endpoint {
  MacAddress peer_mac{};
  MacAddress our_mac{};
  uint8_t num_vlans = 0;                   // 0, 1 or 2; outermost first
  uint8_t ip_version = 4;                  // 4 or 6
  std::array<uint16_t, 2> vlan_tpid{};     // host order: 0x8100 or 0x88a8
  std::array<uint16_t, 2> vlan_tci{};      // host order, priority bits included
  std::array<uint8_t, 16> peer_address{};  // IPv4: the first 4 bytes
  std::array<uint8_t, 16> our_address{};
  uint16_t peer_port = 0;  // host order
  uint16_t our_port = 0;

  // The peer's address, 4 or 16 bytes, for wire::address_token.
  std::span<const std::byte> peer_address_bytes() const noexcept {
    return std::as_bytes(std::span(peer_address.data(), ip_version == 4 ? 4u : 16u));
  }
  bool operator==(const Endpoint&) const = default;
};

}  // namespace itif::net
