// What makes a port's addresses known before anybody asks: gratuitous ARP and unsolicited neighbour
// advertisements move the entries of hosts and switches that knew another machine under our
// addresses; a report of the solicited-node groups makes switches that snoop multicast let neighbour
// solicitations through to us (their queriers' later questions are answered in neighbour.h).
//
// Sources: RFC 5227 section 3 (ARP announcement), RFC 4861 section 7.2.6 (unsolicited advertisement),
// RFC 3810 sections 5.2 and 6.1 (MLDv2 report).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "net/address.h"
#include "net/port.h"

struct rte_mempool;

namespace itif::net {

// The frames for these addresses, untagged and, if there is a VLAN, also in it.
std::vector<std::vector<std::byte>> announcements(const LocalAddresses& local);

// Sends such frames on queue 0, of which the caller is the owner at that time. Returns how many the port
// took: none if its link is down, and then nothing is lost but the hint.
size_t announce(const Port& port, rte_mempool* pool,
                std::span<const std::vector<std::byte>> frames) noexcept;

// One record of a report: RFC 3810, section 5.2.12.
enum class GroupRecord : uint8_t { kIsExclude = 2, kChangeToExclude = 4 };

// Bytes behind the IPv6 header of a report of `local`'s solicited-node groups: hop-by-hop options
// (router alert), ICMPv6.
size_t group_report_bytes(const LocalAddresses& local) noexcept;
// Where a report goes and comes from; `peer` gives the VLAN.
Endpoint group_report_ends(const Endpoint& peer, const LocalAddresses& local) noexcept;
// Writes the whole frame, of l3_header_bytes(ends) + group_report_bytes(local). `ends` is what
// group_report_ends() returned.
void write_group_report(std::byte* out, const Endpoint& ends, const LocalAddresses& local,
                        GroupRecord record) noexcept;

}  // namespace itif::net
