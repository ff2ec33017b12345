// The addresses that a port owns, and both ends of a conversation with a peer.
//
// A reply goes to the MAC address, VLAN and IP address that its request came from. The data plane
// therefore needs no neighbour table and no routes, and sends no ARP requests.
#pragma once

#include <array>
#include <bit>
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

// Parses "198.18.0.1" or "198.18.0.1/24". The prefix length is checked but not used, because we
// never route. Errors: kInvalidArgument, with the text; also for addresses that no host can own.
Result<Ipv4Address> parse_ipv4(std::string_view text);
Result<Ipv6Address> parse_ipv6(std::string_view text);
// Returns false for unspecified, loopback, multicast and (IPv4) reserved addresses, which no single
// host can own. Frames from such a source are not answered, except IPv6 duplicate address
// detection.
inline bool can_be_host(const Ipv4Address& address) noexcept {
  return address[0] != 0 && address[0] != 127 && address[0] < 224;
}
bool can_be_host(const Ipv6Address& address) noexcept;
std::string format_mac(const MacAddress& mac);
std::string format_ipv4(const Ipv4Address& address);
std::string format_ipv6(const Ipv6Address& address);

// fe80::/64 with the modified EUI-64 of the MAC. Source: RFC 4291, appendix A.
Ipv6Address link_local(const MacAddress& mac);

// The addresses that one port owns. Immutable once workers run.
struct LocalAddresses {
  MacAddress mac{};
  std::vector<Ipv4Address> ipv4;
  std::vector<Ipv6Address> ipv6;  // includes the link-local address
  uint16_t udp_port = 0;          // host order
  uint16_t vlan = 0;              // accepted besides untagged and priority-tagged frames; 0: none

  bool owns(const Ipv4Address& address) const noexcept {
    for (const Ipv4Address& ours : ipv4)
      if (std::bit_cast<uint32_t>(ours) == std::bit_cast<uint32_t>(address)) return true;
    return false;
  }
  bool owns(const Ipv6Address& address) const noexcept;
};

struct AddressConfig {
  std::vector<std::string> ipv4;
  std::vector<std::string> ipv6;
  uint16_t udp_port = 0;
  uint16_t vlan = 0;
};
// Parses the addresses and adds the link-local one. Errors: kInvalidArgument (an address, as
// parse_ipv4; a VLAN above 4094; port 0).
Result<LocalAddresses> make_local_addresses(const MacAddress& mac, const AddressConfig& config);

// Both ends of a conversation: the peer and us.
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

  // Returns the peer's address, 4 or 16 bytes, for wire::address_token.
  std::span<const std::byte> peer_address_bytes() const noexcept {
    return std::as_bytes(std::span(peer_address.data(), ip_version == 4 ? 4u : 16u));
  }
  bool operator==(const Endpoint&) const = default;
};

}  // namespace itif::net
