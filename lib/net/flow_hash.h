// A hash of the UDP flow that a frame belongs to, for spreading flows over workers in software.
//
// A flow is a source address and a source port. Our address and port are not part of it: a worker
// knows a client's session, and which of its datagrams are replayed, whichever of our addresses
// they are for.
//
// Pure: reads headers only, verifies no checksum; safe on any input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace itif::net {

// Returns the hash; nullopt for all that is not UDP, or whose headers do not fit `frame`: ARP,
// ICMP, IP fragments, runts. `seed`: secret, so that a stranger cannot aim at one worker.
std::optional<uint32_t> flow_hash(std::span<const std::byte> frame, uint64_t seed) noexcept;

}  // namespace itif::net
