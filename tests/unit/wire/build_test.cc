// The builder: refusals, filled-in fields, reply headers. The parser must survive any damaged
// datagram.
#include <gtest/gtest.h>

#include "base/random.h"
#include "builder.h"

namespace itif::wire {
namespace {

using test::Bytes;
using test::encode;
using test::pattern;
using test::sample_header;

TEST(Build, RefusesOversizedPayloadsAndSmallBuffers) {
  const Bytes payload = pattern(100);
  const Header header = sample_header(Type::kRequest, Auth::kHeader, 100);
  Bytes out(182);
  EXPECT_EQ(build(header, payload, test::test_key(), std::span(out).first(181)), 0u);
  EXPECT_EQ(build(header, payload, test::test_key(), out), 182u);
  EXPECT_EQ(build(header, {}, test::test_key(), {}), 0u);
  Bytes large(70'000);
  EXPECT_EQ(build(header, pattern(kMaxFragmentBytes + 1), test::test_key(), large), 0u);
  EXPECT_EQ(build(header, pattern(65'600), test::test_key(), large), 0u);
}

TEST(Build, WritesNothingPastTheDatagram) {
  Bytes out(100, std::byte{0xaa});
  ASSERT_EQ(build(sample_header(Type::kAck, Auth::kNone, 0), {}, test::test_key(), out), 66u);
  for (size_t i = 66; i < out.size(); ++i) ASSERT_EQ(out[i], std::byte{0xaa});
}

TEST(Build, SealMatchesBuild) {
  for (Auth auth : {Auth::kNone, Auth::kHeader, Auth::kFull, Auth::kSealed}) {
    const Bytes payload = pattern(77);
    const Header header = sample_header(Type::kResponse, auth, payload.size());
    const Bytes expected = encode(header, payload);
    Bytes in_place(header_size(auth));
    in_place.insert(in_place.end(), payload.begin(), payload.end());
    ASSERT_TRUE(seal(header, test::test_key(), in_place));
    EXPECT_EQ(in_place, expected);
  }
  Bytes small(81);
  EXPECT_FALSE(seal(sample_header(Type::kAck, Auth::kHeader, 0), test::test_key(), small));
}

TEST(Build, SingleDatagramTypesGetTheirTotal) {
  Header header = sample_header(Type::kStatus, Auth::kNone, 0);
  header.total_bytes = 999;
  Datagram parsed;
  ASSERT_EQ(parse(encode(header, pattern(12)), parsed), ParseError::kNone);
  EXPECT_EQ(parsed.header.total_bytes, 12u);
}

TEST(ReplyHeader, CopiesOnlyTheFieldsThatNameTheRequest) {
  Header request = sample_header(Type::kRequest, Auth::kFull, 64);
  request.key_epoch = 3;
  request.token = 0xdddd;
  request.flags = kFlagRetry;
  for (Type type : {Type::kStatus, Type::kBusy, Type::kToken, Type::kPong}) {
    Header reply = reply_header(request, type);
    if (type == Type::kStatus) reply.status = StatusCode::kInternal;
    const Bytes datagram = encode(reply);
    Datagram parsed;
    ASSERT_EQ(parse(datagram, parsed), ParseError::kNone) << type_name(type);
    EXPECT_EQ(parsed.header.tenant_id, request.tenant_id);
    EXPECT_EQ(parsed.header.session, request.session);
    EXPECT_EQ(parsed.header.request_id, request.request_id);
    EXPECT_EQ(parsed.header.sequence, 0u);  // the sender sets its own
    EXPECT_EQ(parsed.header.token, 0u);
    const bool tagged = type == Type::kStatus || type == Type::kBusy;
    EXPECT_EQ(parsed.header.auth, tagged ? Auth::kFull : Auth::kNone);
    EXPECT_EQ(parsed.header.key_epoch, tagged ? 3 : 0);
  }
}

// Random bytes from a seed, and good datagrams with bytes changed, cut off or added.
TEST(Parse, RandomAndMutatedDatagramsNeverCrash) {
  Random random(20);
  size_t accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    Bytes datagram;
    if (round % 4 == 0) {
      datagram = Bytes(random.below(200));
      for (auto& byte : datagram) byte = static_cast<std::byte>(random.next());
    } else {
      const auto type = static_cast<Type>(1 + random.below(10));
      const auto auth = static_cast<Auth>(random.below(4));
      const size_t payload = random.below(3) * 8;
      datagram = encode(sample_header(type, auth, payload), pattern(payload));
      for (uint64_t change = random.below(4); change > 0; --change)
        datagram[random.below(datagram.size())] = static_cast<std::byte>(random.next());
      if (random.below(8) == 0) datagram.resize(random.below(datagram.size() + 8));
    }
    // An allocation of the exact size, so that AddressSanitizer sees a read past the end.
    Bytes exact(datagram);
    Datagram parsed;
    if (parse(exact, parsed) != ParseError::kNone) continue;
    ++accepted;
    ASSERT_EQ(parsed.header.header_bytes + parsed.payload.size(), exact.size());
    ASSERT_LE(parsed.header.offset, parsed.header.total_bytes);
    ASSERT_LE(parsed.header.total_bytes, kMaxTotalBytes);
    open(test::test_key(), parsed);
    std::array<Range, kMaxRanges> ranges;
    parse_ranges(parsed.payload, parsed.header.total_bytes, ranges);
  }
  EXPECT_GT(accepted, 10'000u);  // enough datagrams pass the first checks
}

}  // namespace
}  // namespace itif::wire
