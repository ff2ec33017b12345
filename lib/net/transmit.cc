#include "net/transmit.h"

#include <rte_mbuf.h>

#include <algorithm>

#include "base/check.h"
#include "net/header_bytes.h"

namespace itif::net {

uint32_t fragment_bytes_for(uint32_t path_mtu, uint8_t ip_version, wire::Auth auth) noexcept {
  const size_t overhead = (ip_version == 4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes +
                          wire::kHeaderBytes + (auth == wire::Auth::kNone ? 0 : wire::kTagBytes);
  if (path_mtu < overhead + wire::kMinFragmentBytes) return 0;
  return std::min<uint32_t>(static_cast<uint32_t>(path_mtu - overhead) / 4 * 4,
                            wire::kMaxFragmentBytes);
}

uint32_t max_fragment_bytes(rte_mempool* pool) noexcept {
  constexpr uint32_t kHeaders = kEthernetBytes + 2 * kVlanBytes + kIpv6Bytes + kUdpBytes +
                                wire::kHeaderBytes + wire::kTagBytes;
  const uint32_t room = rte_pktmbuf_data_room_size(pool);
  return room < RTE_PKTMBUF_HEADROOM + kHeaders ? 0 : room - RTE_PKTMBUF_HEADROOM - kHeaders;
}

Cursor Cursor::whole(const wire::Header& header) noexcept {
  Cursor cursor;
  cursor.add(0, header.total_bytes);
  return cursor;
}

Cursor Cursor::resend(const wire::Header& header, std::span<const wire::Range> ranges) noexcept {
  Cursor cursor;
  const uint64_t fragment = header.fragment_bytes;
  const uint64_t total = header.total_bytes;
  if (fragment == 0) return cursor;
  uint64_t sent_to = 0;  // overlapping ranges are sent once
  for (const wire::Range& range : ranges.first(std::min(ranges.size(), wire::kMaxRanges))) {
    if (range.bytes == 0 || range.offset >= total) continue;
    const uint64_t begin = std::max(range.offset / fragment * fragment, sent_to);
    const uint64_t asked_to = uint64_t{range.offset} + range.bytes;
    const uint64_t end = std::min((asked_to + fragment - 1) / fragment * fragment, total);
    if (begin >= end) continue;
    cursor.add(static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin));
    sent_to = end;
  }
  return cursor;
}

uint64_t Cursor::bytes() const noexcept {
  uint64_t sum = 0;
  for (uint8_t i = current_; i < count_; ++i) sum += parts_[i].bytes;
  return sum;
}

void Cursor::advance(uint32_t bytes) noexcept {
  Part& part = parts_[current_];
  part.offset += bytes;
  part.bytes -= bytes;
  if (part.bytes == 0) ++current_;
}

rte_mbuf* build_datagram(const wire::Header& header, std::span<const std::byte> payload,
                         const wire::Key& key, const Endpoint& peer, rte_mempool* pool,
                         const TxOffloads& offloads) noexcept {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
  if (mbuf == nullptr) return nullptr;
  const size_t bytes = wire::build(header, payload, key, udp_payload_room(*mbuf, peer));
  if (bytes == 0) {
    rte_pktmbuf_free(mbuf);
    return nullptr;
  }
  write_udp_headers(*mbuf, peer, bytes, offloads);
  return mbuf;
}

Transmitted transmit(const Message& message, Cursor& cursor, uint64_t& next_sequence,
                     rte_mempool* pool, const TxOffloads& offloads,
                     std::span<rte_mbuf*> out) noexcept {
  CHECK(message.header.total_bytes == message.payload.size());
  // A status is a single datagram and has no fragment size.
  const uint32_t fragment_bytes = message.header.fragment_bytes == 0
                                      ? message.header.total_bytes
                                      : message.header.fragment_bytes;
  DCHECK(std::min(fragment_bytes, message.header.total_bytes) <= max_fragment_bytes(pool));
  Transmitted result;
  wire::Header header = message.header;
  while (result.count < out.size() && !cursor.done()) {
    header.offset = cursor.offset();
    header.sequence = next_sequence++;
    const uint32_t bytes = std::min(fragment_bytes, header.total_bytes - header.offset);
    rte_mbuf* mbuf = build_datagram(header, message.payload.subspan(header.offset, bytes),
                                    message.key, message.peer, pool, offloads);
    if (mbuf == nullptr) {
      result.no_mbuf = true;
      break;
    }
    out[result.count++] = mbuf;
    cursor.advance(bytes);
  }
  return result;
}

}  // namespace itif::net
