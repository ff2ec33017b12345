#include "net/port.h"

#include <fmt/core.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "net/devices.h"
#include "net/eal_log.h"
#include "net/header_bytes.h"

namespace itif::net {
namespace {

// Keeps a port open while its figures are read: detach() runs beside threads that report them.
std::mutex g_figures_mutex;

constexpr uint64_t kRxChecksums = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;

constexpr uint64_t kRssHashes =
    RTE_ETH_RSS_IP | RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;

// Returns true for drivers of links to a kernel that may leave UDP checksums to an offload, which
// such a link does not perform.
bool leaves_checksums_partial(std::string_view driver) {
  for (const char* name :
       {"net_af_packet", "net_af_xdp", "net_tap", "net_pcap", "net_virtio", "net_virtio_user"})
    if (driver == name) return true;
  return false;
}

std::string list_devices() {
  std::string names;
  uint16_t id;
  RTE_ETH_FOREACH_DEV(id) {
    char name[RTE_ETH_NAME_MAX_LEN];
    if (rte_eth_dev_get_name_by_port(id, name) != 0) continue;
    names += names.empty() ? name : fmt::format(", {}", name);
  }
  return names.empty() ? "none" : names;
}

Result<uint16_t> find_device(const std::string& device) {
  uint16_t id = 0;
  if (device.empty()) {
    RTE_ETH_FOREACH_DEV(id) return id;
  } else if (rte_eth_dev_get_port_by_name(device.c_str(), &id) == 0) {
    return id;
  }
  const std::string complaint = eal_complaint_about(device.empty() ? "net_" : device);
  const bool refused = complaint.find("not permitted") != complaint.npos ||
                       complaint.find("ermission denied") != complaint.npos;
  const char* remedy = refused          ? "run as root"
                       : device.empty() ? "add --vdev or -a to eal.args, or bind a NIC to a DPDK "
                                          "driver (dpdk-devbind.py)"
                                        : "check ports.device, and --vdev or -a in eal.args";
  return fail(refused ? Code::kPermission : Code::kNotFound,
              fmt::format("no DPDK port{} ({}): {}", device.empty() ? "" : " '" + device + "'",
                          complaint.empty() ? "there is: " + list_devices() : complaint, remedy));
}

Error driver_error(const std::string& device, const char* step, int result) {
  const Code code = result == -ENOMEM                       ? Code::kResourceExhausted
                    : result == -EPERM || result == -EACCES ? Code::kPermission
                                                            : Code::kUnsupported;
  const char* remedy =
      code == Code::kResourceExhausted
          ? "lower rx_descriptors and tx_descriptors, or raise data_plane.mbuf_bytes to the "
            "device's frame size"
      : code == Code::kPermission ? "run as root"
                                  : "check the device's arguments in eal.args";
  return {code, fmt::format("port {}: {}: {}: {}", device, step, errno_text(-result), remedy)};
}

// Chooses the device's configuration from its capabilities.
rte_eth_conf plan_configuration(const rte_eth_dev_info& device, PortInfo& info) {
  rte_eth_conf conf{};
  conf.rxmode.offloads = device.rx_offload_capa & kRxChecksums;
  info.rx_checksums = conf.rxmode.offloads == kRxChecksums;
  if (!info.rx_checksums)
    log::info("port {}: {} does not verify checksums: done in software", info.device, info.driver);

  info.tx_offloads.ipv4_checksum = (device.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0;
  info.tx_offloads.udp_checksum = (device.tx_offload_capa & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
  if (!info.tx_offloads.ipv4_checksum)
    log::info("port {}: {} does not compute IPv4 checksums: done in software", info.device,
              info.driver);
  if (!info.tx_offloads.udp_checksum)
    log::info("port {}: {} does not compute UDP checksums: done in software", info.device,
              info.driver);
  // RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE is safe: every mbuf that we send is from the port's only pool
  // and has one owner.
  conf.txmode.offloads =
      device.tx_offload_capa & (RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
                                RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);

  if (info.num_queues > 1) {
    conf.rx_adv_conf.rss_conf.rss_hf = device.flow_type_rss_offloads & kRssHashes;
    info.rss = conf.rx_adv_conf.rss_conf.rss_hf != 0;
    if (info.rss)
      conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    else
      log::info("port {}: {} has no RSS: the driver decides how flows spread over {} queues",
                info.device, info.driver, info.num_queues);
  }
  return conf;
}

uint16_t plan_queues(const PortConfig& config, const rte_eth_dev_info& device,
                     const PortInfo& info) {
  const uint16_t offered =
      std::max<uint16_t>(1, std::min(device.max_rx_queues, device.max_tx_queues));
  const bool has_rss = (device.flow_type_rss_offloads & kRssHashes) != 0;
  const uint16_t usable = usable_queues(config.num_queues, offered, has_rss, info.driver);
  if (usable < std::min(config.num_queues, offered))
    log::info("port {}: {} has {} queues but no RSS: using {}", info.device, info.driver, offered,
              usable);
  else if (usable < config.num_queues)
    log::info("port {}: {} queues wanted, the device has {}", info.device, config.num_queues,
              offered);
  return usable;
}

uint32_t plan_mtu(const PortConfig& config, const rte_eth_dev_info& device,
                  const std::string& name) {
  // Frame bytes on top of the MTU, computed as in ethdev.
  const uint32_t overhead = device.max_mtu != UINT16_MAX && device.max_rx_pktlen > device.max_mtu
                                ? device.max_rx_pktlen - device.max_mtu
                                : RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
  uint32_t offered = device.max_mtu == 0 ? UINT16_MAX : device.max_mtu;
  if (device.max_rx_pktlen > overhead) offered = std::min(offered, device.max_rx_pktlen - overhead);
  const uint32_t mtu = std::max<uint32_t>(std::min(config.mtu, offered), device.min_mtu);
  if (mtu != config.mtu)
    log::warning("port {}: an MTU of {} wanted, the device takes {} to {}: using {}", name,
                 config.mtu, device.min_mtu, offered, mtu);
  return mtu;
}

// Receives all multicast, because neighbour solicitations need it; else falls back to promiscuous.
void receive_multicast(const PortConfig& config, const PortInfo& info) {
  if (config.promiscuous && rte_eth_promiscuous_enable(info.id) != 0)
    log::warning("port {}: {} does not support promiscuous mode", info.device, info.driver);
  if (rte_eth_allmulticast_enable(info.id) == 0) return;
  if (rte_eth_promiscuous_enable(info.id) == 0) return;
  log::info(
      "port {}: {} cannot enable multicast reception: if IPv6 peers do not resolve our address, "
      "give them a static neighbour entry",
      info.device, info.driver);
}

}  // namespace

uint16_t usable_queues(uint16_t wanted, uint16_t offered, bool has_rss,
                       std::string_view driver) noexcept {
  // The kernel, the host or the peer chooses the queue of each flow. Without RSS, a NIC puts all
  // flows into its first queue.
  constexpr std::string_view kSpreading[] = {
      "net_af_packet", "net_af_xdp", "net_memif",  "net_null",        "net_pcap",
      "net_ring",      "net_tap",    "net_virtio", "net_virtio_user", "net_vhost"};
  const bool spreads = has_rss || std::ranges::find(kSpreading, driver) != std::end(kSpreading);
  return spreads ? std::clamp<uint16_t>(wanted, 1, offered) : uint16_t{1};
}

Result<Port> Port::open(const PortConfig& config) {
  Port port;
  PortInfo& info = port.info_;
  ITIF_ASSIGN(info.id, find_device(config.device));
  char name[RTE_ETH_NAME_MAX_LEN] = "";
  rte_eth_dev_get_name_by_port(info.id, name);
  info.device = name;
  rte_eth_dev_info device{};
  if (const int result = rte_eth_dev_info_get(info.id, &device); result != 0)
    return std::unexpected(driver_error(info.device, "cannot query the device", result));
  info.driver = device.driver_name == nullptr ? "?" : device.driver_name;
  info.socket = rte_eth_dev_socket_id(info.id);
  info.partial_checksums = leaves_checksums_partial(info.driver);
  if (info.driver == "net_af_packet" || info.driver == "net_af_xdp")
    port.interface_ = KernelInterface(device.if_index);
  info.num_queues = plan_queues(config, device, info);
  info.mtu = plan_mtu(config, device, info.device);

  const uint32_t frame_bytes = info.mtu + static_cast<uint32_t>(kEthernetBytes + 2 * kVlanBytes);
  const uint32_t room = rte_pktmbuf_data_room_size(config.pool) - RTE_PKTMBUF_HEADROOM;
  if (frame_bytes > room)
    return fail(Code::kInvalidArgument,
                fmt::format("port {}: an MTU of {} needs packet buffers of {} bytes, they have {}: "
                            "raise data_plane.mbuf_bytes or lower the port's mtu",
                            info.device, info.mtu, frame_bytes, room));

  rte_eth_conf conf = plan_configuration(device, info);
  conf.rxmode.mtu = info.mtu;
  port.open_ = true;  // from now on a failure must close the device
  if (const int result = rte_eth_dev_configure(info.id, info.num_queues, info.num_queues, &conf);
      result != 0)
    return std::unexpected(driver_error(info.device, "cannot configure the device", result));
  uint16_t rx_descriptors = config.rx_descriptors, tx_descriptors = config.tx_descriptors;
  if (const int result =
          rte_eth_dev_adjust_nb_rx_tx_desc(info.id, &rx_descriptors, &tx_descriptors);
      result != 0 && result != -ENOTSUP)
    return std::unexpected(driver_error(info.device, "cannot set descriptor counts", result));
  device.default_rxconf.offloads = conf.rxmode.offloads;
  device.default_txconf.offloads = conf.txmode.offloads;
  const auto socket = static_cast<unsigned>(info.socket);
  for (uint16_t queue = 0; queue < info.num_queues; ++queue) {
    if (const int result = rte_eth_rx_queue_setup(info.id, queue, rx_descriptors, socket,
                                                  &device.default_rxconf, config.pool);
        result != 0)
      return std::unexpected(driver_error(info.device, "cannot set up a receive queue", result));
    if (const int result =
            rte_eth_tx_queue_setup(info.id, queue, tx_descriptors, socket, &device.default_txconf);
        result != 0)
      return std::unexpected(driver_error(info.device, "cannot set up a transmit queue", result));
  }
  if (const int result = rte_eth_dev_start(info.id); result != 0)
    return std::unexpected(driver_error(info.device, "cannot start the device", result));
  receive_multicast(config, info);

  rte_ether_addr mac{};
  rte_eth_macaddr_get(info.id, &mac);
  if (config.has_mac && std::memcmp(mac.addr_bytes, config.mac.data(), config.mac.size()) != 0) {
    std::memcpy(mac.addr_bytes, config.mac.data(), config.mac.size());
    if (const int result = rte_eth_dev_default_mac_addr_set(info.id, &mac); result != 0)
      return std::unexpected(driver_error(
          info.device, fmt::format("cannot take the address {}", format_mac(config.mac)).c_str(),
          result));
  }
  std::memcpy(info.mac.data(), mac.addr_bytes, info.mac.size());
  const Link link = port.link();
  log::info("port {}: {}, {}, {} queue{}, MTU {}, link {}", info.device, info.driver,
            format_mac(info.mac), info.num_queues, info.num_queues == 1 ? "" : "s", info.mtu,
            link.up ? "up" : "down (waiting for it)");
  return port;
}

Port Port::closed(PortInfo info) {
  Port port;
  port.info_ = std::move(info);
  return port;
}

Status Port::open_as_known(const PortConfig& config) {
  PortConfig same = config;
  same.device = info_.device;
  same.has_mac = true;
  same.mac = info_.mac;
  ITIF_ASSIGN(Port opened, open(same));
  const PortInfo& now = opened.info_;
  if (now.driver != info_.driver || now.num_queues != info_.num_queues || now.mtu != info_.mtu ||
      now.rss != info_.rss)
    return fail(Code::kInvalidArgument,
                fmt::format("port {}: the device now has another driver, MTU ({}) or number of "
                            "queues ({}) than before ({}, {})",
                            info_.device, now.mtu, now.num_queues, info_.mtu, info_.num_queues));
  const std::lock_guard lock(g_figures_mutex);
  info_.id = now.id;  // other threads may be reading the rest
  interface_ = std::move(opened.interface_);
  open_ = std::exchange(opened.open_, false);
  return {};
}

Status Port::detach() {
  rte_eth_dev_info device{};
  const int queried = open_ ? rte_eth_dev_info_get(info_.id, &device) : -ENODEV;
  close();
  if (queried != 0 || device.device == nullptr) return {};
  if (const int result = rte_dev_remove(device.device); result != 0)
    return std::unexpected(driver_error(info_.device, "cannot remove the device", result));
  return {};
}

Port::Port(Port&& other) noexcept
    : info_(std::move(other.info_)),
      interface_(std::move(other.interface_)),
      open_(std::exchange(other.open_, false)) {}

Port& Port::operator=(Port&& other) noexcept {
  if (this != &other) {
    close();
    info_ = std::move(other.info_);
    interface_ = std::move(other.interface_);
    open_ = std::exchange(other.open_, false);
  }
  return *this;
}

Port::~Port() {
  close();
}

void Port::close() noexcept {
  const std::lock_guard lock(g_figures_mutex);
  if (!std::exchange(open_, false)) return;
  if (info_.driver == "net_memif") {
    rte_eth_dev_info device{};
    const rte_devargs* arguments = nullptr;
    if (rte_eth_dev_info_get(info_.id, &device) == 0 && device.device != nullptr)
      arguments = rte_dev_devargs(device.device);
    if (arguments != nullptr && arguments->args != nullptr) close_memif_listener(arguments->args);
  }
  if (rte_eth_dev_stop(info_.id) != 0) log::warning("port {}: did not stop cleanly", info_.device);
  rte_eth_dev_close(info_.id);
}

bool Port::reconnect() noexcept {
  if (info_.driver != "net_memif" || link().up) return false;
  capture_eal_log();  // a line for each attempt
  (void)rte_eth_dev_stop(info_.id);
  const bool is_connected = rte_eth_dev_start(info_.id) == 0;
  release_eal_log();
  return is_connected;
}

PortStats Port::stats() const noexcept {
  const std::lock_guard lock(g_figures_mutex);
  if (!open_) return {};
  rte_eth_stats stats{};
  if (rte_eth_stats_get(info_.id, &stats) != 0) return {};
  return {stats.ipackets, stats.opackets,  stats.ibytes,  stats.obytes,
          stats.imissed,  stats.rx_nombuf, stats.ierrors, stats.oerrors};
}

Link Port::link() const noexcept {
  const std::lock_guard lock(g_figures_mutex);
  if (!open_) return {};
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(info_.id, &link) != 0) return {};
  const KernelInterface::Link kernel = interface_.link();
  const bool is_down =
      kernel == KernelInterface::Link::kDown || kernel == KernelInterface::Link::kRemoved;
  const bool known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return {.up = link.link_status == RTE_ETH_LINK_UP && !is_down,
          .speed_mbps = known ? link.link_speed : 0,
          .removed = kernel == KernelInterface::Link::kRemoved};
}

uint16_t Port::rx_burst(uint16_t queue, std::span<rte_mbuf*> out) const noexcept {
  return rte_eth_rx_burst(info_.id, queue, out.data(), static_cast<uint16_t>(out.size()));
}

uint16_t Port::tx_burst(uint16_t queue, std::span<rte_mbuf*> mbufs) const noexcept {
  return rte_eth_tx_burst(info_.id, queue, mbufs.data(), static_cast<uint16_t>(mbufs.size()));
}

}  // namespace itif::net
