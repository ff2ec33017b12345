// Kernel interfaces that serve as ports: AF_PACKET, AF_XDP, pcap.
#include "doctor/interfaces.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace itif::ctl::doctor {
namespace {

// A frame of the ring begins with a tpacket2_hdr (32 bytes), which net_af_packet subtracts. The
// kernel writes the Ethernet header at byte 66, after a sockaddr_ll too (linux/if_packet.h).
constexpr uint32_t kRingHeaderBytes = 32;
constexpr uint32_t kRingOffsetBytes = 66;
constexpr uint32_t kEthernetBytes = 14;  // the kernel takes VLAN tags off
constexpr uint32_t kLongestMtu = 1500;   // net_af_packet's

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

// The kernel of this network namespace must not have the port's addresses, too.
void check_addresses(const Machine& machine, const PortUse& use, Checks& checks) {
  const std::vector<std::string> own = kernel_addresses(machine);
  for (const std::string& address : use.port->ipv4)
    if (std::ranges::count(own, bare(address)) > 0)
      checks.push_back(fail(fmt::format("address {}", bare(address)),
                            "the kernel has it, too: it answers clients that nobody listens",
                            fmt::format("ip address del {} dev {}", address, use.interface)));
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
