// Messages cut into datagrams, read back by parse_frame and wire::parse.
#include "net/transmit.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "net/frame.h"
#include "net/transmit_queue.h"
#include "packet.h"

namespace itif::net::test {
namespace {

std::vector<std::byte> random_bytes(size_t bytes) {
  Random random(bytes + 1);
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random.next());
  return data;
}

// Returns the peer as parse_frame would report it from a request.
Endpoint endpoint(int version, int tags) {
  Packet packet = version == 4 ? Packet() : Packet::v6();
  packet.vlans.assign(static_cast<size_t>(tags), {0x8100, 0});
  net::Frame parsed;
  EXPECT_EQ(parse_frame(packet.build(), {}, local_addresses(), parsed), DropReason::kNone);
  return parsed.peer;
}

// Returns the peer's local addresses, to which we send.
LocalAddresses peer_addresses() {
  auto local = make_local_addresses(kPeerMac, {{"198.18.0.2"}, {"fd00::2"}, kPeerPort, 0});
  return *local;
}

wire::Header response_header(uint32_t total, uint32_t fragment, wire::Auth auth) {
  wire::Header header;
  header.type = wire::Type::kResponse;
  header.auth = auth;
  header.tenant_id = 1;
  header.session = 2;
  header.request_id = 3;
  header.total_bytes = total;
  header.fragment_bytes = static_cast<uint16_t>(fragment);
  return header;
}

const wire::Key kKey = [] {
  wire::Key key;
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i * 3);
  return key;
}();

class Transmit : public EalTest {
 protected:
  // Acts as the peer: verifies each frame and puts its payload into `received`.
  void receive(std::span<rte_mbuf* const> mbufs, uint32_t path_mtu,
               std::vector<std::byte>& received, bool offloaded = false) {
    for (rte_mbuf* mbuf : mbufs) {
      const net::test::Frame frame = take(mbuf);
      net::Frame parsed;
      FrameInfo info;
      if (offloaded) info = {ChecksumState::kGood, ChecksumState::kGood};
      ASSERT_EQ(parse_frame(frame, info, peer_addresses(), parsed), DropReason::kNone);
      EXPECT_LE(frame.size() - parsed.l3_offset, path_mtu);
      EXPECT_TRUE(parsed.peer.ip_version == 6 || frame[parsed.l3_offset + 6] == std::byte{0x40});
      wire::Datagram datagram;
      const auto payload = std::span(frame).subspan(parsed.payload_offset, parsed.payload_bytes);
      ASSERT_EQ(wire::parse(payload, datagram), wire::ParseError::kNone);
      EXPECT_EQ(wire::verify_tag(kKey, datagram), datagram.header.auth != wire::Auth::kNone);
      ASSERT_LE(datagram.header.offset + datagram.payload.size(), received.size());
      std::copy(datagram.payload.begin(), datagram.payload.end(),
                received.begin() + datagram.header.offset);
      ++datagrams_;
    }
  }
  size_t datagrams_ = 0;
  uint64_t next_sequence = 7;
};

TEST_F(Transmit, RoundTripsOverBothVersionsMtusTagsAndAuths) {
  for (const int version : {4, 6}) {
    for (const int tags : {0, 1, 2}) {
      for (const uint32_t mtu : {206u, 576u, 1280u, 1500u}) {
        for (const wire::Auth auth : {wire::Auth::kNone, wire::Auth::kHeader, wire::Auth::kFull}) {
          const uint32_t fragment = fragment_bytes_for(mtu, static_cast<uint8_t>(version), auth);
          ASSERT_NE(fragment, 0u);
          for (const uint32_t total : {0u, 1u, fragment - 1, fragment, fragment + 1, 20'001u}) {
            const auto data = random_bytes(total);
            const Message message{response_header(total, fragment, auth), data,
                                  endpoint(version, tags), kKey};
            Cursor cursor = Cursor::whole(message.header);
            std::vector<std::byte> received(total);
            datagrams_ = 0;
            while (!cursor.done()) {  // a few at a time, as with a full queue
              rte_mbuf* out[7];
              const Transmitted sent = transmit(message, cursor, next_sequence, pool(), {}, out);
              ASSERT_FALSE(sent.no_mbuf);
              ASSERT_TRUE(sent.count == 7 || cursor.done());
              receive({out, sent.count}, mtu, received);
            }
            ASSERT_EQ(received, data);
            ASSERT_EQ(datagrams_, std::max(1u, (total + fragment - 1) / fragment));
          }
        }
      }
    }
  }
}

TEST_F(Transmit, FragmentSizes) {
  EXPECT_EQ(fragment_bytes_for(1500, 6, wire::Auth::kHeader), wire::kDefaultFragmentBytes);
  EXPECT_EQ(fragment_bytes_for(1500, 4, wire::Auth::kNone), 1404u);  // 1406, rounded down
  EXPECT_EQ(fragment_bytes_for(65535, 4, wire::Auth::kNone), wire::kMaxFragmentBytes);
  EXPECT_EQ(fragment_bytes_for(194, 6, wire::Auth::kFull), 64u);
  EXPECT_EQ(fragment_bytes_for(193, 6, wire::Auth::kFull), 0u);
  EXPECT_EQ(fragment_bytes_for(0, 4, wire::Auth::kNone), 0u);
  EXPECT_EQ(max_fragment_bytes(pool()), 2048u - 14 - 8 - 40 - 8 - 66 - 16);
}

TEST_F(Transmit, OffloadedChecksumsHoldThePseudoHeaderSumAndFlags) {
  const auto data = random_bytes(100);
  for (const int version : {4, 6}) {
    const Endpoint peer = endpoint(version, 1);
    rte_mbuf* mbuf = build_datagram(response_header(100, 1368, wire::Auth::kNone), data, kKey, peer,
                                    pool(), {true, true});
    ASSERT_NE(mbuf, nullptr);
    EXPECT_EQ(mbuf->l2_len, 18u);
    EXPECT_EQ(mbuf->l3_len, version == 4 ? 20u : 40u);
    const uint64_t expected =
        RTE_MBUF_F_TX_UDP_CKSUM |
        (version == 4 ? RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM : RTE_MBUF_F_TX_IPV6);
    EXPECT_EQ(mbuf->ol_flags, expected);
    // The UDP field holds the pseudo-header's sum, to which the device adds the rest; the IPv4
    // header checksum is zero.
    const auto* frame = rte_pktmbuf_mtod(mbuf, const std::byte*);
    const size_t udp = 18 + mbuf->l3_len;
    const auto ours = ip_bytes(version, version == 4 ? "198.18.0.1" : "fd00::1");
    auto pseudo = ip_bytes(version, version == 4 ? "198.18.0.2" : "fd00::2");
    pseudo.insert(pseudo.end(), ours.begin(), ours.end());
    const auto sum = static_cast<uint16_t>(~plain_checksum(pseudo, 17 + 8 + 166));
    EXPECT_EQ(to_hex({frame + udp + 6, 2}), to_hex(bytes_of({sum >> 8, sum & 0xff})));
    EXPECT_TRUE(version == 6 || to_hex({frame + 18 + 10, 2}) == "00 00");
    std::vector<std::byte> received(100);
    receive({&mbuf, 1}, 1500, received, true);
    EXPECT_EQ(received, data);
  }
}

TEST_F(Transmit, ResendsWholePiecesOnce) {
  const auto data = random_bytes(1000);
  const Message message{response_header(1000, 100, wire::Auth::kNone), data, endpoint(4, 0), kKey};
  const auto offsets = [&](std::vector<wire::Range> ranges) {
    Cursor cursor = Cursor::resend(message.header, ranges);
    std::string text;
    while (!cursor.done()) {
      rte_mbuf* mbuf;
      text += std::to_string(cursor.offset()) + " ";
      EXPECT_EQ(transmit(message, cursor, next_sequence, pool(), {}, {&mbuf, 1}).count, 1u);
      rte_pktmbuf_free(mbuf);
    }
    return text;
  };
  EXPECT_EQ(offsets({{0, 100}}), "0 ");
  EXPECT_EQ(offsets({{100, 200}, {900, 100}}), "100 200 900 ");
  EXPECT_EQ(offsets({{150, 1}, {399, 2}}), "100 300 400 ");
  EXPECT_EQ(offsets({{0, 150}, {150, 100}, {150, 100}}), "0 100 200 ");  // each piece once
  EXPECT_EQ(offsets({{950, UINT32_MAX}}), "900 ");
  EXPECT_EQ(offsets({{500, 100}, {0, 100}}), "500 ");  // the format requires ascending ranges
  EXPECT_EQ(offsets({{1000, 1}, {5, 0}, {UINT32_MAX, UINT32_MAX}}), "");
  EXPECT_EQ(offsets({}), "");
  EXPECT_EQ(offsets(std::vector<wire::Range>(1000, {0, 1000})),
            "0 100 200 300 400 500 600 700 800 900 ");
}

TEST_F(Transmit, AStatusIsOneDatagramWithoutFragmentSize) {
  const auto detail = random_bytes(30);
  wire::Header header = response_header(30, 0, wire::Auth::kHeader);
  header.type = wire::Type::kStatus;
  header.status = wire::StatusCode::kOverloaded;
  const Message message{header, detail, endpoint(6, 0), kKey};
  Cursor cursor = Cursor::whole(header);
  rte_mbuf* out[4];
  ASSERT_EQ(transmit(message, cursor, next_sequence, pool(), {}, out).count, 1u);
  EXPECT_TRUE(cursor.done());
  std::vector<std::byte> received(30);
  receive({out, 1}, 1500, received);
  EXPECT_EQ(received, detail);
}

TEST_F(Transmit, AnEmptyPoolStopsAndResumes) {
  std::vector<rte_mbuf*> all(kMbufs);
  ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool(), all.data(), kMbufs), 0);
  const auto data = random_bytes(300);
  const Message message{response_header(300, 100, wire::Auth::kNone), data, endpoint(4, 0), kKey};
  Cursor cursor = Cursor::whole(message.header);
  rte_mbuf* out[8];
  Transmitted sent = transmit(message, cursor, next_sequence, pool(), {}, out);
  EXPECT_EQ(sent.count, 0u);
  EXPECT_TRUE(sent.no_mbuf);
  EXPECT_EQ(
      build_datagram(message.header, std::span(data).first(100), kKey, message.peer, pool(), {}),
      nullptr);
  rte_pktmbuf_free(all.back());
  all.pop_back();
  sent = transmit(message, cursor, next_sequence, pool(), {}, out);
  EXPECT_EQ(sent.count, 1u);
  EXPECT_TRUE(sent.no_mbuf);
  EXPECT_EQ(cursor.offset(), 100u);
  std::vector<std::byte> received(300);
  receive({out, 1}, 1500, received);
  rte_pktmbuf_free_bulk(all.data(), static_cast<unsigned>(all.size()));
  sent = transmit(message, cursor, next_sequence, pool(), {}, out);
  EXPECT_EQ(sent.count, 2u);
  receive({out, 2}, 1500, received);
  EXPECT_EQ(received, data);
}

TEST_F(Transmit, RefusesDatagramsLargerThanABuffer) {
  const auto data = random_bytes(2000);
  EXPECT_EQ(build_datagram(response_header(2000, 2000, wire::Auth::kNone), data, kKey,
                           endpoint(4, 0), pool(), {}),
            nullptr);
}

}  // namespace
}  // namespace itif::net::test
