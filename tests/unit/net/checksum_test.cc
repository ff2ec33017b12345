#include "net/checksum.h"

#include "base/random.h"
#include "packet.h"

namespace itif::net::test {
namespace {

TEST(Checksum, AgreesWithTheWordByWordSumAtEveryLengthAndAlignment) {
  Random random(1);
  std::vector<std::byte> buffer(3000);
  for (auto& byte : buffer) byte = static_cast<std::byte>(random.next());
  for (size_t start = 0; start < 8; ++start) {
    for (size_t bytes = 0; bytes < 70; ++bytes) {
      const auto part = std::span(buffer).subspan(start, bytes);
      EXPECT_EQ(static_cast<uint16_t>(~ones_sum(part)), plain_checksum(part)) << bytes;
    }
    const auto all = std::span(buffer).subspan(start);
    EXPECT_EQ(static_cast<uint16_t>(~ones_sum(all)), plain_checksum(all));
  }
}

TEST(Checksum, Rfc1071Example) {
  EXPECT_EQ(ones_sum(from_hex("00 01 f2 03 f4 f5 f6 f7")), 0xddf2);
}

TEST(Checksum, LongRunsOfOnesCarryCorrectly) {
  const std::vector<std::byte> ones(65534, std::byte{0xff});
  EXPECT_EQ(ones_sum(ones), 0xffff);
  EXPECT_EQ(ones_sum(ones, 0xffffffff), 0xffff);
}

TEST(Checksum, UdpNeverSendsZero) {
  // Two payload bytes bring the sum to 0xffff.
  Endpoint peer;
  auto datagram = from_hex("00 00 00 00 00 00 00 00 00 00");
  const auto pseudo = pseudo_header_sum(peer, 17, 10);
  put16(datagram, 8, static_cast<uint16_t>(~pseudo));
  EXPECT_EQ(l4_checksum(peer, 17, datagram), 0xffff);
  const auto pseudo_icmp = pseudo_header_sum(peer, 58, 10);
  put16(datagram, 8, static_cast<uint16_t>(~pseudo_icmp));
  EXPECT_EQ(l4_checksum(peer, 58, datagram), 0);
}

}  // namespace
}  // namespace itif::net::test
