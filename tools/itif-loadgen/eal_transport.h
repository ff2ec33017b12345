// A client transport over any DPDK port (memif, af_packet, a NIC), which builds and parses frames
// itself. It measures an appliance without the client's kernel. No other part of the tool except
// eal_resolve.cc uses DPDK.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "client/transport.h"
#include "pcap_file.h"

namespace itif::loadgen {

struct EalTransportOptions {
  std::string eal_args;    // separated by blanks
  std::string device;      // empty: the first port
  std::string local_ip;    // IPv4 or IPv6, the same family as server_ip
  std::string server_ip;   // on the same link, unless server_mac is a router's
  std::string server_mac;  // empty: resolved by ARP or neighbour solicitation
  uint16_t server_port = 0;
  uint32_t num_flows = 1;  // source ports
  // Gets the frames of UDP datagrams; null: none. REQUIRES: outlives the transport.
  PcapFile* capture = nullptr;
};

// Call it at most once per process. Errors: those of net::start_eal and net::Port; kInvalidArgument
// (an address); kUnavailable (the server's address cannot be resolved).
Result<std::unique_ptr<client::Transport>> open_eal_transport(const Clock& clock,
                                                              const EalTransportOptions& options);

// Returns how many datagrams the port has dropped because its queue was full or no mbuf was free.
// REQUIRES: open_eal_transport() made the transport.
uint64_t eal_receive_drops(const client::Transport& transport) noexcept;

}  // namespace itif::loadgen
