// Cuts a message into datagrams, each in a fresh mbuf with its own tag. Resumable, so that a
// message of megabytes shares the queue with others, and waits while the queue is full or the pool
// empty.
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

// Returns the largest piece that reaches a peer unfragmented: path MTU − IP − UDP − header − tag,
// rounded down to a multiple of 4, at most kMaxFragmentBytes; 0 if less than kMinFragmentBytes is
// left. VLAN tags do not count towards an MTU.
uint32_t fragment_bytes_for(uint32_t path_mtu, uint8_t ip_version, wire::Auth auth) noexcept;

// Returns the largest piece that fits the pool's buffers over IPv6, with a tag and two VLAN tags.
uint32_t max_fragment_bytes(rte_mempool* pool) noexcept;

// A message to send to `peer`, authenticated with `key`. Borrowed.
struct Message {
  // The caller sets total_bytes, fragment_bytes, auth and key_epoch. transmit() sets offset,
  // sequence, payload_bytes and header_bytes per datagram.
  const wire::Header& header;
  std::span<const std::byte> payload;  // header.total_bytes long
  const Endpoint& peer;
  const wire::Key& key;
};

// The unsent parts of a message: ascending ranges of whole pieces. Copies move only the ranges that
// are used, since most cursors have one.
class Cursor {
 public:
  Cursor() noexcept {}
  Cursor(const Cursor& other) noexcept { *this = other; }
  Cursor& operator=(const Cursor& other) noexcept {
    current_ = other.current_;
    count_ = other.count_;
    for (uint8_t i = current_; i < count_; ++i) parts_[i] = other.parts_[i];
    return *this;
  }
  // Covers the whole message; one empty datagram if it has no payload.
  static Cursor whole(const wire::Header& header) noexcept;
  // Covers the ranges of a resend datagram, widened to whole pieces and clipped to the message.
  // Empty, overlapping and out-of-range parts are left out.
  static Cursor resend(const wire::Header& header, std::span<const wire::Range> ranges) noexcept;

  bool done() const noexcept { return current_ == count_; }
  // Returns the payload bytes that are left.
  uint64_t bytes() const noexcept;
  uint32_t offset() const noexcept { return parts_[current_].offset; }
  // Moves past the piece at offset(), which is `bytes` long. REQUIRES: !done().
  void advance(uint32_t bytes) noexcept;

 private:
  struct Part {
    uint32_t offset, bytes;  // without initial values: a cursor has few parts
  };
  void add(uint32_t offset, uint32_t bytes) noexcept { parts_[count_++] = {offset, bytes}; }

  uint8_t current_ = 0;
  uint8_t count_ = 0;
  std::array<Part, wire::kMaxRanges> parts_;  // set up to count_
};

struct Transmitted {
  size_t count = 0;      // mbufs written to `out`
  bool no_mbuf = false;  // the pool is empty: try again later
};
// Builds the next datagrams of the message, at most out.size(). The message is complete when
// cursor.done(). A header with fragment_bytes 0 (status) makes one datagram. REQUIRES:
// header.total_bytes = payload.size(), header.fragment_bytes ≤ max_fragment_bytes(pool).
// `next_sequence`: of the next datagram; counts up.
Transmitted transmit(const Message& message, Cursor& cursor, uint64_t& next_sequence,
                     rte_mempool* pool, const TxOffloads& offloads,
                     std::span<rte_mbuf*> out) noexcept;

// Builds a single datagram (status, busy, token, pong, resend). Returns nullptr if the pool is
// empty or the payload does not fit a buffer.
rte_mbuf* build_datagram(const wire::Header& header, std::span<const std::byte> payload,
                         const wire::Key& key, const Endpoint& peer, rte_mempool* pool,
                         const TxOffloads& offloads) noexcept;

}  // namespace itif::net
