// Cuts a message into datagrams, each in a fresh mbuf with its own tag: resumable, so that a
// message of megabytes shares the queue with others and waits when the queue or the pool is full.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "net/address.h"
#include "net/frame_writer.h"
#include "wire/datagram.h"

struct rte_mbuf;
struct rte_mempool;

namespace itif::net {

// The largest piece that reaches a peer unfragmented: path MTU − IP − UDP − header − tag, rounded
// down to a multiple of 4, at most kMaxFragmentBytes. VLAN tags are outside an MTU. 0 if less than
// kMinFragmentBytes is left.
uint32_t fragment_bytes_for(uint32_t path_mtu, uint8_t ip_version, wire::Auth auth) noexcept;

// The largest piece that fits the pool's buffers over IPv6, with a tag and two VLAN tags.
uint32_t max_fragment_bytes(rte_mempool* pool) noexcept;

// Where a message goes and under which key. header: as for the whole message, with total_bytes,
// fragment_bytes, auth and key_epoch; offset, payload_bytes and header_bytes are set per datagram.
struct Message {
  wire::Header header;
  std::span<const std::byte> payload;  // header.total_bytes long
  Endpoint peer;
  wire::Key key{};
};

// What of a message is still to be sent: ascending ranges of whole pieces.
class Cursor {
 public:
  // The whole message; one empty datagram if it has no payload.
  static Cursor whole(const wire::Header& header) noexcept;
  // What a resend datagram asks for, widened to whole pieces and clipped to the message; ranges
  // that make no sense are left out.
  static Cursor resend(const wire::Header& header, std::span<const wire::Range> ranges) noexcept;

  bool done() const noexcept { return current_ == count_; }
  uint32_t offset() const noexcept { return ranges_[current_].offset; }
  // Past the piece at offset(), which was `bytes` long. REQUIRES: !done().
  void advance(uint32_t bytes) noexcept;

 private:
  uint8_t current_ = 0;
  uint8_t count_ = 0;
  std::array<wire::Range, wire::kMaxRanges> ranges_;
};

struct Transmitted {
  size_t count = 0;      // mbufs written to `out`
  bool no_mbuf = false;  // stopped for want of a buffer: try again later
};
// Builds the next datagrams of the message, at most out.size(). Done when cursor.done().
// REQUIRES: header.total_bytes = payload.size(), header.fragment_bytes ≤
// max_fragment_bytes(pool); a header without fragment size (status) is sent as one datagram.
Transmitted transmit(const Message& message, Cursor& cursor, rte_mempool* pool,
                     const TxOffloads& offloads, std::span<rte_mbuf*> out) noexcept;

// One datagram on its own (status, busy, token, pong, resend); nullptr if there is no buffer or the
// payload does not fit one.
rte_mbuf* build_datagram(const wire::Header& header, std::span<const std::byte> payload,
                         const wire::Key& key, const Endpoint& peer, rte_mempool* pool,
                         const TxOffloads& offloads) noexcept;

}  // namespace itif::net
