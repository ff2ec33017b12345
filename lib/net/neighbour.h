// Answers what keeps a host reachable: ARP requests, IPv6 neighbour solicitations (RFC 4861, with
// duplicate address detection's unspecified source), ICMP and ICMPv6 echo, MLDv2 queries (RFC 3810).
//
// The answer is written into the received mbuf and goes to the MAC address the question came from:
// no neighbour table is kept. Solicitations come by multicast, so the port must receive all
// multicast (Port does). Called by the worker that owns the mbuf.
#pragma once

#include "net/address.h"
#include "net/drop_reason.h"
#include "net/frame.h"

struct rte_mbuf;

namespace itif::net {

// kNone: the mbuf now holds the answer: transmit it. Otherwise drop it under that reason.
// REQUIRES: `frame` was parsed from `mbuf` and is not kUdp.
DropReason answer_neighbour(rte_mbuf& mbuf, const Frame& frame,
                            const LocalAddresses& local) noexcept;

}  // namespace itif::net
