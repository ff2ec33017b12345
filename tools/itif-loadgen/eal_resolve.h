// Finds the MAC address behind the server's IP address: ARP, or an IPv6 neighbour solicitation.
#pragma once

#include "base/clock.h"
#include "base/error.h"
#include "net/address.h"
#include "net/port.h"

namespace itif::loadgen {

// Asks up to three times a second for three seconds and answers the server's own questions meanwhile.
// Reads peer.our_mac, our_address, peer_address and ip_version; sets peer.peer_mac.
// Errors: kUnavailable, if nobody answers; kResourceExhausted (no mbuf).
Status resolve_mac(const Clock& clock, const net::Port& port, rte_mempool* pool,
                   const net::LocalAddresses& local, net::Endpoint& peer);

}  // namespace itif::loadgen
