// Resolves the server's IP address to its MAC address, by ARP or IPv6 neighbour solicitation.
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "net/address.h"
#include "net/port.h"

namespace itif::loadgen {

// Asks three times a second for up to three seconds; meanwhile answers the server's own
// solicitations. Reads peer.our_mac, our_address, peer_address and ip_version; sets peer.peer_mac.
// Errors: kUnavailable (no answer); kResourceExhausted (no mbuf).
Status resolve_mac(const Clock& clock, const net::Port& port, rte_mempool* pool,
                   const net::LocalAddresses& local, net::Endpoint& peer);

}  // namespace itif::loadgen
