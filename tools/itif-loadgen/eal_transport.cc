// The single thread that polls the engine owns the port's one queue; between runs, the main thread
// does. It also answers ARP, neighbour solicitations and pings.
#include "eal_transport.h"

#include <fmt/format.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <sstream>
#include <utility>
#include <vector>

#include "base/log.h"
#include "eal_resolve.h"
#include "net/eal.h"
#include "net/frame.h"
#include "net/frame_writer.h"
#include "net/header_bytes.h"
#include "net/mempool.h"
#include "net/neighbour.h"
#include "net/port.h"
#include "wire/header.h"

namespace itif::loadgen {
namespace {

constexpr uint16_t kFirstSourcePort = 40000;
constexpr uint32_t kMbufs = 16384;
constexpr uint32_t kMbufBytes = 2048;
constexpr size_t kBurst = 64;
constexpr uint64_t kReconnectPeriod_ns = 20'000'000;
// DPDK's memif server ends its process if a client goes before the server has greeted it.
constexpr uint64_t kHandshake_ns = 1'000'000'000;
constexpr uint64_t kLongestNap_ns = 50'000;  // between polls, because a DPDK port wakes no thread

// Registers its thread with EAL while it exists: without an lcore id, a thread has no mempool
// cache. The main thread has one from the start. Fails harmlessly.
class EalThread {
 public:
  EalThread() : registered_(rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0) {}
  ~EalThread() {
    if (registered_) rte_thread_unregister();
  }
  EalThread(const EalThread&) = delete;
  EalThread& operator=(const EalThread&) = delete;

 private:
  const bool registered_;
};

class EalTransport final : public client::Transport {
 public:
  EalTransport(const Clock& clock, net::Mempool pool, net::Port port,
               std::vector<net::LocalAddresses> locals, PcapFile* capture)
      : clock_(clock),
        pool_(std::move(pool)),
        port_(std::move(port)),
        locals_(std::move(locals)),
        capture_(capture),
        next_reconnect_ns_(clock.now_ns() + kHandshake_ns) {}

  ~EalTransport() override {
    release_received();
    { const net::Port closing = std::move(port_); }
    pool_.reset();
    net::stop_eal();
  }

  // peer: the result of parse_addresses(options).
  Status resolve(const Clock& clock, const EalTransportOptions& options, net::Endpoint peer) {
    peer.our_mac = port_.info().mac;
    if (options.server_mac.empty())
      ITIF_TRY(resolve_mac(clock, port_, pool_.get(), locals_[0], peer));
    for (uint32_t i = 0; i < locals_.size(); ++i) {
      peer.our_port = static_cast<uint16_t>(kFirstSourcePort + i);
      peers_.push_back(peer);
    }
    // 8: the UDP header.
    max_datagram_bytes_ = port_.info().mtu - (peer.ip_version == 4 ? 20u : 40u) - 8;
    log::info("sending through {} ({}) from {} to {} at {}", port_.info().device,
              port_.info().driver, options.local_ip, options.server_ip,
              net::format_mac(peer.peer_mac));
    return {};
  }

  uint64_t receive_drops() const noexcept {
    const net::PortStats stats = port_.stats();
    return stats.rx_missed + stats.rx_no_mbuf;
  }

  uint32_t num_flows() const noexcept override { return static_cast<uint32_t>(peers_.size()); }

  size_t send(uint32_t flow, std::span<const client::Outgoing> batch) noexcept override {
    const net::Endpoint& peer = peers_[flow];
    size_t taken = 0;
    while (taken < batch.size()) {
      std::array<rte_mbuf*, kBurst> mbufs;
      size_t count = 0;
      size_t bytes = 0;
      for (const client::Outgoing& datagram : batch.subspan(taken)) {
        bytes = datagram.head.size() + datagram.body.size();
        if (count == kBurst || bytes > max_datagram_bytes_) break;
        rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_.get());
        if (mbuf == nullptr) break;
        std::byte* room = net::udp_payload_room(*mbuf, peer).data();
        std::memcpy(room, datagram.head.data(), datagram.head.size());
        if (!datagram.body.empty())
          std::memcpy(room + datagram.head.size(), datagram.body.data(), datagram.body.size());
        net::write_udp_headers(*mbuf, peer, bytes, port_.info().tx_offloads);
        mbufs[count++] = mbuf;
      }
      if (count == 0) {
        if (bytes <= max_datagram_bytes_) break;  // no mbuf now: the device frees some as it sends
        ++taken;                                  // too large: dropped, the request times out
        continue;
      }
      if (capture_ != nullptr) copy_frames(std::span(mbufs).first(count));
      const uint16_t sent = port_.tx_burst(0, std::span(mbufs).first(count));
      taken += sent;
      if (capture_ != nullptr) write_copies(sent);
      if (sent < count) {
        rte_pktmbuf_free_bulk(mbufs.data() + sent, static_cast<unsigned>(count - sent));
        break;
      }
    }
    return taken;
  }

  size_t receive(std::span<client::Incoming> batch) noexcept override {
    release_received();
    // The appliance's end of a memif goes away during a handover.
    if (const uint64_t now_ns = clock_.now_ns(); now_ns >= next_reconnect_ns_) {
      const bool is_connected = port_.reconnect();
      next_reconnect_ns_ = now_ns + (is_connected ? kHandshake_ns : kReconnectPeriod_ns);
    }
    thread_local const EalThread thread;
    std::array<rte_mbuf*, kBurst> burst;
    const uint16_t count =
        port_.rx_burst(0, std::span(burst).first(std::min(kBurst, batch.size())));
    size_t filled = 0;
    for (rte_mbuf* mbuf : std::span(burst).first(count)) {
      uint32_t flow = 0;
      net::Frame frame;
      const net::DropReason reason = parse(*mbuf, frame, flow);
      if (reason == net::DropReason::kNone && frame.kind == net::Frame::kUdp) {
        if (capture_ != nullptr) write(*mbuf);
        const std::span<const std::byte> payload = net::udp_payload(*mbuf, frame);
        batch[filled++] = {.flow = flow,
                           .bytes = {const_cast<std::byte*>(payload.data()), payload.size()}};
        received_[num_received_++] = mbuf;
        continue;
      }
      if (reason == net::DropReason::kNone &&
          net::answer_neighbour(*mbuf, frame, locals_[0]) == net::DropReason::kNone &&
          port_.tx_burst(0, std::span(&mbuf, 1)) == 1)
        continue;
      rte_pktmbuf_free(mbuf);
    }
    return filled;
  }

  void wait(uint64_t timeout_ns) noexcept override {
    const timespec nap{.tv_sec = 0,
                       .tv_nsec = static_cast<long>(std::min(timeout_ns, kLongestNap_ns))};
    nanosleep(&nap, nullptr);
  }

 private:
  static std::span<const std::byte> bytes_of(const rte_mbuf& mbuf) noexcept {
    return {rte_pktmbuf_mtod(&mbuf, const std::byte*), mbuf.data_len};
  }

  // The device may free an mbuf that it sends, so frames are copied before and written after.
  void copy_frames(std::span<rte_mbuf* const> mbufs) noexcept {
    for (size_t i = 0; i < mbufs.size(); ++i) {
      const std::span<const std::byte> frame = bytes_of(*mbufs[i]);
      copies_[i].assign(frame.begin(), frame.end());
    }
  }
  void write_copies(size_t count) noexcept {
    for (const std::vector<std::byte>& copy : std::span(copies_).first(count)) {
      const std::span<const std::byte> part(copy);
      capture_->write(std::span(&part, 1));
    }
  }
  void write(const rte_mbuf& mbuf) noexcept {
    const std::span<const std::byte> part = bytes_of(mbuf);
    capture_->write(std::span(&part, 1));
  }

  // Each flow has its own port and therefore its own LocalAddresses.
  net::DropReason parse(rte_mbuf& mbuf, net::Frame& frame, uint32_t& flow) noexcept {
    const bool partial = port_.info().partial_checksums;
    const net::DropReason reason = net::parse_frame(mbuf, partial, locals_[0], frame);
    if (reason != net::DropReason::kUdpOtherPort || locals_.size() == 1) return reason;
    const uint16_t port =
        net::load_be16(rte_pktmbuf_mtod_offset(&mbuf, const std::byte*, frame.l4_offset + 2));
    flow = static_cast<uint32_t>(port - kFirstSourcePort);
    return flow < locals_.size() ? net::parse_frame(mbuf, partial, locals_[flow], frame) : reason;
  }

  void release_received() noexcept {
    rte_pktmbuf_free_bulk(received_.data(), num_received_);
    num_received_ = 0;
  }

  const Clock& clock_;
  net::Mempool pool_;
  net::Port port_;
  std::vector<net::LocalAddresses> locals_;  // per flow
  std::vector<net::Endpoint> peers_;         // per flow
  PcapFile* capture_;                        // null: none
  std::array<std::vector<std::byte>, kBurst> copies_;
  size_t max_datagram_bytes_ = 0;           // UDP payload that fits the link's MTU
  uint64_t next_reconnect_ns_;              // not before the port's first connection is made
  std::array<rte_mbuf*, kBurst> received_;  // hold the datagrams that receive() returned
  unsigned num_received_ = 0;
};

bool parse_mac(const std::string& text, net::MacAddress& out) {
  std::array<unsigned, 6> b{};
  int end = 0;
  if (std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4],
                  &b[5], &end) != 6 ||
      static_cast<size_t>(end) != text.size())
    return false;
  for (size_t i = 0; i < 6; ++i) out[i] = static_cast<uint8_t>(b[i]);
  return (out[0] & 1) == 0;  // not a group address
}

// Parses "198.18.0.2" or "fd00::2" as an address of IP version `version`. The error names `option`.
Status parse_ip(const char* option, const std::string& text, int version,
                std::array<uint8_t, 16>& out) {
  const auto refuse = [&] {
    return fail(Code::kInvalidArgument,
                fmt::format("{} {}: with --eal it must be an IPv{} address, as in {}{}", option,
                            text, version, version == 4 ? "198.18.0.2" : "fd00:18::2",
                            std::string_view(option) == "--local-ip"
                                ? ", of the same family as the server's"
                                : ""));
  };
  if (text.find('/') != text.npos) return refuse();
  if (version == 4) {
    const Result<net::Ipv4Address> address = net::parse_ipv4(text);
    if (!address) return refuse();
    std::copy(address->begin(), address->end(), out.begin());
  } else {
    const Result<net::Ipv6Address> address = net::parse_ipv6(text);
    if (!address) return refuse();
    out = *address;
  }
  return {};
}

// Parses the addresses of both ends. Sets the server's MAC address only if it is given.
Result<net::Endpoint> parse_addresses(const EalTransportOptions& options) {
  net::Endpoint peer;
  peer.ip_version = options.server_ip.find(':') == std::string::npos ? 4 : 6;
  peer.peer_port = options.server_port;
  ITIF_TRY(parse_ip("--server", options.server_ip, peer.ip_version, peer.peer_address));
  ITIF_TRY(parse_ip("--local-ip", options.local_ip, peer.ip_version, peer.our_address));
  if (!options.server_mac.empty() && !parse_mac(options.server_mac, peer.peer_mac))
    return fail(
        Code::kInvalidArgument,
        fmt::format("--server-mac {}: must be a unicast MAC address, as in 02:00:00:00:00:01",
                    options.server_mac));
  return peer;
}

// Replaces the appliance's configuration keys in errors of lib/net by our options.
Error in_our_words(Error error) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords{
      {{"eal.args", "--eal"}, {"ports.device", "--eal-device"}, {" and data_plane.mbufs", ""}}};
  for (const auto& [theirs, ours] : kWords)
    for (size_t at; (at = error.message.find(theirs)) != std::string::npos;)
      error.message.replace(at, theirs.size(), ours);
  return error;
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Result<std::unique_ptr<client::Transport>> open_port(const Clock& clock,
                                                     const EalTransportOptions& options,
                                                     const net::Endpoint& peer,
                                                     const net::MempoolConfig& mempool) {
  ITIF_ASSIGN(net::Mempool pool, net::create_mempool(mempool));
  net::PortConfig config;
  config.device = options.device;
  config.pool = pool.get();
  ITIF_ASSIGN(net::Port port, net::Port::open(config));
  std::vector<net::LocalAddresses> locals;
  for (uint32_t i = 0; i < options.num_flows; ++i) {
    net::AddressConfig addresses;
    (peer.ip_version == 4 ? addresses.ipv4 : addresses.ipv6) = {options.local_ip};
    addresses.udp_port = static_cast<uint16_t>(kFirstSourcePort + i);
    ITIF_ASSIGN(net::LocalAddresses local, net::make_local_addresses(port.info().mac, addresses));
    locals.push_back(std::move(local));
  }
  auto transport = std::make_unique<EalTransport>(clock, std::move(pool), std::move(port),
                                                  std::move(locals), options.capture);
  ITIF_TRY(transport->resolve(clock, options, peer));
  return transport;
}

}  // namespace

Result<std::unique_ptr<client::Transport>> open_eal_transport(const Clock& clock,
                                                              const EalTransportOptions& options) {
  ITIF_ASSIGN(const net::Endpoint peer, parse_addresses(options));
  const net::MempoolConfig mempool{.name = "loadgen", .mbufs = kMbufs, .mbuf_bytes = kMbufBytes};
  const auto needed_mb = static_cast<uint32_t>(net::mempool_mb(mempool) + 32);
  const net::EalPlan plan =
      net::plan_eal(split(options.eal_args), net::inspect_hugepages(), needed_mb);
  if (!plan.warning.empty()) log::warning("{}", plan.warning);
  if (Status started = net::start_eal(plan.args); !started)
    return std::unexpected(in_our_words(started.error()));
  auto transport = open_port(clock, options, peer, mempool);
  if (transport) return transport;
  net::stop_eal();
  return std::unexpected(in_our_words(transport.error()));
}

uint64_t eal_receive_drops(const client::Transport& transport) noexcept {
  return static_cast<const EalTransport&>(transport).receive_drops();
}

}  // namespace itif::loadgen
