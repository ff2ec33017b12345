// Announces a port's addresses. Gratuitous ARP and unsolicited neighbour advertisements update
// hosts and switches that knew another machine under our addresses. A report of the solicited-node
// groups makes switches that snoop multicast forward neighbour solicitations to us; neighbour.h
// answers the later queries of their queriers.
//
// Sources: RFC 5227 section 3 (ARP announcement), RFC 4861 section 7.2.6 (unsolicited
// advertisement), RFC 3810 sections 5.2 and 6.1 (MLDv2 report).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "net/address.h"
#include "net/tx_buffer.h"

struct rte_mempool;

namespace itif::net {

// Returns the frames for these addresses: untagged and, if a VLAN is set, also tagged with it.
std::vector<std::vector<std::byte>> announcements(const LocalAddresses& local);

// Gives the frames to `tx`, for its next flush. Returns how many it took. The others are dropped,
// which is harmless: announcements are only hints.
size_t announce(TxBuffer& tx, rte_mempool* pool,
                std::span<const std::vector<std::byte>> frames) noexcept;

// The type of a group record in a report. Source: RFC 3810, section 5.2.12.
enum class GroupRecord : uint8_t { kIsExclude = 2, kChangeToExclude = 4 };

// Returns the bytes after the IPv6 header in a report of `local`'s solicited-node groups:
// hop-by-hop options (router alert) and ICMPv6.
size_t group_report_bytes(const LocalAddresses& local) noexcept;
// Returns the ends of a report: from our link-local address to all MLDv2 routers, in `peer`'s VLAN.
Endpoint group_report_ends(const Endpoint& peer, const LocalAddresses& local) noexcept;
// Writes the whole frame: l3_header_bytes(ends) + group_report_bytes(local) bytes. REQUIRES: `ends`
// came from group_report_ends().
void write_group_report(std::byte* out, const Endpoint& ends, const LocalAddresses& local,
                        GroupRecord record) noexcept;

}  // namespace itif::net
