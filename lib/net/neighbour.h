// Answers the frames that keep a host reachable: ARP requests, IPv6 neighbour solicitations (RFC
// 4861, including the unspecified source of duplicate address detection), ICMP and ICMPv6 echo,
// MLDv2 queries (RFC 3810), and datagrams to ports at which nobody listens.
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

// Returns true if a frame asks for an echo of its bytes. REQUIRES: as answer_neighbour().
bool asks_for_echo(const rte_mbuf& mbuf, const Frame& frame) noexcept;

// Tells the sender of a UDP datagram that nobody listens at that port: ICMP's (RFC 792) or ICMPv6's
// (RFC 4443, section 3.1) "port unreachable", written into the mbuf. It quotes headers only, and is
// never longer than what it answers. Returns false if the datagram cannot be answered. REQUIRES:
// parse_frame() has refused it with kUdpOtherPort.
bool answer_other_port(rte_mbuf& mbuf, const Frame& frame) noexcept;

// Returns kNone if the mbuf now holds the reply to transmit; otherwise the reason to drop the mbuf.
// REQUIRES: `frame` was parsed from `mbuf` and is not kUdp.
DropReason answer_neighbour(rte_mbuf& mbuf, const Frame& frame,
                            const LocalAddresses& local) noexcept;

}  // namespace itif::net
