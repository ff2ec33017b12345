// DPDK as the client's transport: frames built and parsed here, through any port that EAL knows
// (memif, af_packet, a NIC). For measuring an appliance without the client's kernel in the way.
// This part of the tool is the only one that knows DPDK.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "client/transport.h"

namespace itif::loadgen {

struct EalTransportOptions {
  std::string eal_args;    // separated by blanks
  std::string device;      // empty: the first port
  std::string local_ip;    // IPv4 or IPv6, of the same family as server_ip
  std::string server_ip;   // must be on the same link, or server_mac the router's
  std::string server_mac;  // empty: asked for by ARP or neighbour solicitation
  uint16_t server_port = 0;
  uint32_t num_flows = 1;  // source ports
};

// Once a process. Errors: those of net::start_eal and net::Port; kInvalidArgument (an address);
// kUnavailable (nobody answers for the server's address).
Result<std::unique_ptr<client::Transport>> open_eal_transport(const Clock& clock,
                                                              const EalTransportOptions& options);

}  // namespace itif::loadgen
