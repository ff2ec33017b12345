// Answers the requests that keep a host reachable: ARP requests, IPv6 neighbour solicitations (RFC
// 4861, including the unspecified source of duplicate address detection), ICMP and ICMPv6 echo,
// MLDv2 queries (RFC 3810).
//
// The reply is written into the received mbuf and goes to the MAC address that the request came
// from, so there is no neighbour table. Solicitations arrive by multicast, so the port must receive
// all multicast; Port enables that. Called by the worker that owns the mbuf.
#pragma once

#include "net/address.h"
#include "net/drop_reason.h"
#include "net/frame.h"

struct rte_mbuf;

namespace itif::net {

// Returns kNone if the mbuf now holds the reply to transmit; otherwise the reason to drop the mbuf.
// REQUIRES: `frame` was parsed from `mbuf` and is not kUdp.
DropReason answer_neighbour(rte_mbuf& mbuf, const Frame& frame,
                            const LocalAddresses& local) noexcept;

}  // namespace itif::net
