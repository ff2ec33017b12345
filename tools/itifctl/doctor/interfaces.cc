// Kernel interfaces that serve as ports: AF_PACKET, AF_XDP, pcap.
#include "doctor/interfaces.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <sstream>

namespace itif::ctl::doctor {
namespace {

// A frame of the ring begins with a tpacket2_hdr (32 bytes), which net_af_packet subtracts. The
// kernel writes the Ethernet header at byte 66, after a sockaddr_ll too (linux/if_packet.h).
constexpr uint32_t kRingHeaderBytes = 32;
constexpr uint32_t kRingOffsetBytes = 66;
constexpr uint32_t kEthernetBytes = 14;  // the kernel takes VLAN tags off
constexpr uint32_t kLongestMtu = 1500;   // net_af_packet's

// Parses two digits for each byte of `out`; false: `text` is anything else.
bool parse_hex(std::string_view text, std::span<uint8_t> out) {
  if (text.size() != 2 * out.size()) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    const char* digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, out[i], 16).ptr != digits + 2) return false;
  }
  return true;
}

// IPv4 addresses of the kernel itself, from /proc/net/fib_trie.
std::vector<std::string> kernel_addresses(const Machine& machine) {
  std::vector<std::string> addresses;
  std::string last;
  for (const std::string& line : machine.files.lines("/proc/net/fib_trie")) {
    if (const size_t at = line.find("|-- "); at != line.npos) last = line.substr(at + 4);
    if (line.find("host LOCAL") != line.npos && std::ranges::count(addresses, last) == 0)
      addresses.push_back(last);
  }
  return addresses;
}

std::string bare(const std::string& address) {
  return address.substr(0, address.find('/'));
}

void check_link(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::string name = fmt::format("interface {}", use.interface);
  const std::string folder = "/sys/class/net/" + use.interface;
  // /sys may be mounted in another network namespace than this process is in.
  const std::string listed = machine.files.text_or("/proc/net/dev", "");
  if (!machine.files.exists(folder) && listed.find(" " + use.interface + ":") != listed.npos)
    return checks.push_back(
        not_applicable(name, "/sys is another network namespace's: use `ip netns exec`"));
  if (!machine.files.exists(folder))
    return checks.push_back(fail(name, "there is none in this network namespace",
                                 "ip link   # lists them; correct iface= in eal.args"));
  const std::string flags = machine.files.text_or(folder + "/flags", "0x0");
  unsigned value = 0;
  if (flags.size() > 2) std::from_chars(flags.data() + 2, flags.data() + flags.size(), value, 16);
  if ((value & 1) == 0)  // IFF_UP
    return checks.push_back(fail(name, "down", fmt::format("ip link set {} up", use.interface)));
  const std::string state = machine.files.text_or(folder + "/operstate", "unknown");
  if (state == "down" || state == "lowerlayerdown")
    checks.push_back(
        warn(name, "up, but it has no carrier",
             fmt::format("ethtool {}   # cable, or the other end of the veth", use.interface)));
  else
    checks.push_back(ok(name, "up, " + state));
}

// An IPv6 address of the kernel, and its interface.
struct Ipv6Entry {
  std::array<uint8_t, 16> address{};
  std::string interface;
};

// From /proc/net/if_inet6: "fe80…(32 digits) INDEX PREFIX SCOPE FLAGS INTERFACE".
std::vector<Ipv6Entry> kernel_ipv6(const Machine& machine) {
  constexpr unsigned kDadFailed = 0x08;  // the kernel does not use it: another host has it
  std::vector<Ipv6Entry> entries;
  for (const std::string& line : machine.files.lines("/proc/net/if_inet6")) {
    std::istringstream words(line);
    std::string digits, index, prefix, scope;
    unsigned flags = 0;
    Ipv6Entry entry;
    words >> digits >> index >> prefix >> scope >> std::hex >> flags >> entry.interface;
    if (words.fail() || (flags & kDadFailed) != 0 || !parse_hex(digits, entry.address)) continue;
    entries.push_back(entry);
  }
  return entries;
}

// itifd's link-local address on this interface, from the MAC that the kernel has, too. nullopt:
// none, or the kernel does not receive what itifd does (AF_XDP). Source: RFC 4291, appendix A.
std::optional<std::array<uint8_t, 16>> link_local(const Machine& machine, const PortUse& use) {
  if (use.driver != "net_af_packet") return std::nullopt;
  std::string text = machine.files.text_or("/sys/class/net/" + use.interface + "/address", "");
  std::erase(text, ':');
  std::array<uint8_t, 6> mac{};
  if (!parse_hex(text, mac)) return std::nullopt;
  return std::array<uint8_t, 16>{
      0xfe,   0x80,   0,    0,    0,      0,      0,     0, static_cast<uint8_t>(mac[0] ^ 2),
      mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
}

std::string text_of(const std::array<uint8_t, 16>& address) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET6, address.data(), text, sizeof text);
  return text;
}

// The kernel of this network namespace must not have the port's addresses, too.
void check_addresses(const Machine& machine, const PortUse& use, Checks& checks) {
  const auto add = [&](const std::string& address, const char* answers, const std::string& remedy) {
    checks.push_back(
        fail("address " + address, std::string("the kernel has it, too: it ") + answers, remedy));
  };
  constexpr const char* kRefuses = "answers clients that nobody listens";
  const std::vector<std::string> own = kernel_addresses(machine);
  for (const std::string& address : use.port->ipv4)
    if (std::ranges::count(own, bare(address)) > 0)
      add(bare(address), kRefuses, fmt::format("ip address del {} dev {}", address, use.interface));
  const auto local = link_local(machine, use);
  for (const auto& [found, interface] : kernel_ipv6(machine)) {
    for (const std::string& address : use.port->ipv6) {
      std::array<uint8_t, 16> wanted{};
      if (::inet_pton(AF_INET6, bare(address).c_str(), wanted.data()) == 1 && found == wanted)
        add(bare(address), kRefuses, fmt::format("ip address del {} dev {}", address, interface));
    }
    if (local && interface == use.interface && found == *local)
      add(text_of(found),
          "answers ping twice, and clients of this link-local address that nobody listens",
          fmt::format("ip link set dev {0} addrgenmode none && ip -6 address flush dev {0}",
                      interface));
  }
}

// The ring that the kernel and DPDK's net_af_packet share. Its default sizes are the driver's.
void check_ring(const Machine& machine, const PortUse& use, Checks& checks) {
  if (use.driver != "net_af_packet") return;
  const std::string name = fmt::format("frames of {}", use.device);
  const auto argument = [&](const char* key, uint32_t otherwise) {
    const std::string text = argument_of(use.arguments, key);
    std::from_chars(text.data(), text.data() + text.size(), otherwise);
    return otherwise;
  };
  const uint32_t frame_bytes = argument("framesz", 2048);
  const uint32_t block_bytes = argument("blocksz", static_cast<uint32_t>(::getpagesize()));
  const uint32_t buffer_bytes = machine.config.data_plane.mbuf_bytes;
  if (frame_bytes > block_bytes)
    return checks.push_back(
        fail(name, fmt::format("framesz={} is larger than blocksz={}", frame_bytes, block_bytes),
             fmt::format("blocksz={} in eal.args", (frame_bytes + 65535) / 65536 * 65536)));
  if (frame_bytes > buffer_bytes + kRingHeaderBytes)
    return checks.push_back(fail(
        name,
        fmt::format("framesz={} has {} bytes for data, and packet buffers have {}", frame_bytes,
                    frame_bytes - kRingHeaderBytes, buffer_bytes),
        fmt::format("framesz=2048 in eal.args, or data_plane.mbuf_bytes = {} in the configuration",
                    (frame_bytes - kRingHeaderBytes + 1023) / 1024 * 1024)));
  const uint32_t needed = std::min(use.port->mtu, kLongestMtu) + kEthernetBytes + kRingOffsetBytes;
  if (frame_bytes < needed)
    return checks.push_back(
        fail(name,
             fmt::format("framesz={} cuts frames of more than {} bytes", frame_bytes,
                         frame_bytes - std::min(frame_bytes, kRingOffsetBytes)),
             "framesz=2048 in eal.args"));
  checks.push_back(ok(name, fmt::format("of up to {} bytes, in packet buffers of {}",
                                        frame_bytes - kRingOffsetBytes, buffer_bytes)));
}

}  // namespace

void check_interface(const Machine& machine, const PortUse& use, Checks& checks) {
  check_link(machine, use, checks);
  check_addresses(machine, use, checks);
  check_ring(machine, use, checks);
}

}  // namespace itif::ctl::doctor
