// One DPDK port, of any driver. Uses the device's offloads and logs one line for each missing one.
//
// Opened and closed by the main thread; queue q is used by one worker only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/address.h"
#include "net/frame_writer.h"
#include "net/kernel_interface.h"

struct rte_mbuf;
struct rte_mempool;

namespace itif::net {

struct PortConfig {
  std::string device;       // EAL's name: "net_af_packet0", "0000:3b:00.0"; empty: the first device
  uint16_t num_queues = 1;  // reduced to usable_queues()
  uint16_t rx_descriptors = 1024;  // clamped to the device's limits
  uint16_t tx_descriptors = 1024;
  uint32_t mtu = 1500;  // bytes of an IP packet, without VLAN tags
  rte_mempool* pool = nullptr;
  bool has_mac = false;
  MacAddress mac{};          // the device gets this address if it has another one
  bool promiscuous = false;  // needed only if the device cannot filter for its own MAC address
};

struct PortInfo {
  uint16_t id = 0;
  std::string device;
  std::string driver;
  MacAddress mac{};
  uint16_t num_queues = 1;
  uint32_t mtu = 1500;
  TxOffloads tx_offloads;
  bool rss = false;
  bool rx_checksums = false;       // the device verifies and sets flags in each mbuf
  bool partial_checksums = false;  // a virtual link whose kernel leaves UDP checksums unfinished
  int socket = -1;
};

// Returns how many of `offered` queue pairs to use: at most `wanted`, and one if the device would
// not spread flows over several. `driver`: its name; some spread flows without RSS.
uint16_t usable_queues(uint16_t wanted, uint16_t offered, bool has_rss,
                       std::string_view driver) noexcept;

struct PortStats {
  uint64_t rx_packets = 0;
  uint64_t tx_packets = 0;
  uint64_t rx_bytes = 0;
  uint64_t tx_bytes = 0;
  uint64_t rx_missed = 0;   // imissed: the queue was full
  uint64_t rx_no_mbuf = 0;  // rx_nombuf: the pool was empty
  uint64_t rx_errors = 0;   // ierrors
  uint64_t tx_errors = 0;   // oerrors
};

struct Link {
  bool up = false;
  uint32_t speed_mbps = 0;  // 0: unknown
  // The kernel's interface was removed: the port stays deaf, also if one of the same name is made.
  bool removed = false;
};

class Port {
 public:
  // Opens and starts the port. A link that is down is logged and is not an error. Errors: kNotFound
  // (no such device; lists the existing ones), kPermission, kInvalidArgument (an MTU that the mbufs
  // cannot hold), kUnsupported, kResourceExhausted. The message gives the driver's error and the
  // remedy.
  static Result<Port> open(const PortConfig& config);
  // Returns a port that is not open, of a device that another process has, until open_as_known().
  static Port closed(PortInfo info);
  Port(Port&& other) noexcept;
  Port& operator=(Port&& other) noexcept;
  ~Port();  // stops and closes
  // Stops and closes the port and removes its device from EAL. info() stays. REQUIRES: no worker
  // uses the port.
  Status detach();
  // Opens a closed or detached port of a device that is attached again. The device keeps its MAC
  // address. Errors: those of open(); kInvalidArgument (it differs from info()).
  Status open_as_known(const PortConfig& config);

  const PortInfo& info() const noexcept { return info_; }
  bool is_open() const noexcept { return open_; }
  // Reconnects a memif client whose server has gone. Returns true if a server listens: the link
  // comes up when the server has answered, unless reconnect() is called before. Does nothing if the
  // link is up, or with other drivers. REQUIRES: no other thread uses the port.
  bool reconnect() noexcept;
  PortStats stats() const noexcept;
  Link link() const noexcept;

  // Receives up to out.size() mbufs, which the caller then owns.
  uint16_t rx_burst(uint16_t queue, std::span<rte_mbuf*> out) const noexcept;
  // Hands a prefix of `mbufs` to the device and returns its length. The caller keeps the rest.
  uint16_t tx_burst(uint16_t queue, std::span<rte_mbuf*> mbufs) const noexcept;

 private:
  Port() = default;
  void close() noexcept;

  PortInfo info_;
  KernelInterface interface_;  // of drivers that do not report its link
  bool open_ = false;
};

}  // namespace itif::net
