// An Ethernet frame with any offload flags of a NIC. It is parsed, answered if it is a neighbour or
// echo request, and its UDP payload is parsed as a datagram.
//
//   input = u8: checksum states (2 bits IP, 2 bits UDP), VLAN stripped (1 bit); then the frame
#include <rte_mbuf.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "net/frame.h"
#include "net/neighbour.h"
#include "wire/datagram.h"

namespace {

using namespace itif;

const net::LocalAddresses& local_addresses() {
  static const net::LocalAddresses local = [] {
    auto made = net::make_local_addresses(
        {0x02, 0, 0, 0, 0, 1},
        {.ipv4 = {"198.18.0.1/24"}, .ipv6 = {"fd00::1/64"}, .udp_port = 9009, .vlan = 7});
    CHECK(made.has_value());
    return *made;
  }();
  return local;
}

// Has the answer written into the frame's buffer, which is as long as the frame and has the usual
// headroom.
void answer(std::span<const std::byte> bytes, const net::Frame& frame) {
  std::vector<std::byte> buffer(RTE_PKTMBUF_HEADROOM + bytes.size());
  std::memcpy(buffer.data() + RTE_PKTMBUF_HEADROOM, bytes.data(), bytes.size());
  rte_mbuf mbuf{};
  mbuf.buf_addr = buffer.data();
  mbuf.buf_len = static_cast<uint16_t>(buffer.size());
  mbuf.data_off = RTE_PKTMBUF_HEADROOM;
  mbuf.data_len = static_cast<uint16_t>(bytes.size());
  mbuf.pkt_len = mbuf.data_len;
  mbuf.nb_segs = 1;
  if (net::answer_neighbour(mbuf, frame, local_addresses()) != net::DropReason::kNone) return;
  CHECK(mbuf.data_off + mbuf.data_len <= mbuf.buf_len);
  CHECK(mbuf.pkt_len == mbuf.data_len);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 || size > 9100) return 0;
  const net::FrameInfo info{.ip_checksum = static_cast<net::ChecksumState>(data[0] & 3),
                            .l4_checksum = static_cast<net::ChecksumState>(data[0] >> 2 & 3),
                            .vlan_stripped = (data[0] & 0x10) != 0,
                            .vlan_tci = 7};
  // A copy, so that AddressSanitizer also sees a read before the frame.
  const std::vector<uint8_t> exact(data + 1, data + size);
  const auto bytes = std::as_bytes(std::span(exact));
  net::Frame frame;
  const net::DropReason reason = net::parse_frame(bytes, info, local_addresses(), frame);
  CHECK(reason < net::DropReason::kCount);
  if (reason != net::DropReason::kNone) return 0;

  CHECK(frame.l3_offset <= frame.l4_offset && frame.l4_offset <= frame.payload_offset);
  CHECK(frame.payload_offset + frame.payload_bytes <= bytes.size());
  if (frame.kind != net::Frame::kUdp) {
    answer(bytes, frame);
    return 0;
  }
  wire::Datagram datagram;
  wire::parse(bytes.subspan(frame.payload_offset, frame.payload_bytes), datagram);
  return 0;
}
