#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace itif::net {
namespace {

// Splits "address[/prefix]" and converts the address part.
template <size_t kBytes>
Result<std::array<uint8_t, kBytes>> parse(std::string_view text, int family, const char* what) {
  const auto refuse = [&](const char* why) {
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' is no {} address ({}): write it as \"{}\"", text, what, why,
                            family == AF_INET ? "198.18.0.1/24" : "fd00::1/64"));
  };
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view prefix = text.substr(slash + 1);
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(prefix.data(), prefix.data() + prefix.size(), bits);
    if (error != std::errc() || end != prefix.data() + prefix.size() || bits > kBytes * 8)
      return refuse("bad prefix length");
  }
  std::array<uint8_t, kBytes> address{};
  if (inet_pton(family, std::string(text.substr(0, slash)).c_str(), address.data()) != 1)
    return refuse("malformed");
  return address;
}

}  // namespace

Result<Ipv4Address> parse_ipv4(std::string_view text) {
  ITIF_ASSIGN(const Ipv4Address address, parse<4>(text, AF_INET, "IPv4"));
  if (!can_be_host(address))
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' cannot be a host's IPv4 address: it is unspecified, loopback, "
                            "multicast or reserved",
                            text));
  return address;
}

Result<Ipv6Address> parse_ipv6(std::string_view text) {
  ITIF_ASSIGN(const Ipv6Address address, parse<16>(text, AF_INET6, "IPv6"));
  if (!can_be_host(address))
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' cannot be a host's IPv6 address: it is unspecified, loopback or "
                            "multicast",
                            text));
  return address;
}

bool can_be_host(const Ipv6Address& address) noexcept {
  if (address[0] == 0xff) return false;
  const bool only_last =
      std::all_of(address.begin(), address.end() - 1, [](uint8_t byte) { return byte == 0; });
  return !(only_last && address.back() <= 1);  // :: and ::1
}

std::string format_mac(const MacAddress& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3],
                     mac[4], mac[5]);
}

std::string format_ipv4(const Ipv4Address& address) {
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, address.data(), text, sizeof text);
}

std::string format_ipv6(const Ipv6Address& address) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, address.data(), text, sizeof text);
}

Ipv6Address link_local(const MacAddress& mac) {
  return {0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 0x02),
          mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

bool LocalAddresses::owns(const Ipv6Address& address) const noexcept {
  return std::find(ipv6.begin(), ipv6.end(), address) != ipv6.end();
}

Result<LocalAddresses> make_local_addresses(const MacAddress& mac, const AddressConfig& config) {
  LocalAddresses local;
  local.mac = mac;
  if (config.udp_port == 0)
    return fail(Code::kInvalidArgument, "UDP port 0 cannot be served: choose 1 to 65535");
  if (config.vlan > 4094)
    return fail(
        Code::kInvalidArgument,
        fmt::format("VLAN {} does not exist: choose 1 to 4094, or 0 for none", config.vlan));
  local.udp_port = config.udp_port;
  local.vlan = config.vlan;
  for (const std::string& text : config.ipv4) {
    ITIF_ASSIGN(const Ipv4Address address, parse_ipv4(text));
    if (!local.owns(address)) local.ipv4.push_back(address);
  }
  for (const std::string& text : config.ipv6) {
    ITIF_ASSIGN(const Ipv6Address address, parse_ipv6(text));
    if (!local.owns(address)) local.ipv6.push_back(address);
  }
  if (!local.owns(link_local(mac))) local.ipv6.push_back(link_local(mac));
  return local;
}

}  // namespace itif::net
