// Tables of datagrams and the parser's verdicts: every ParseError, the rules of every type.
#include <gtest/gtest.h>

#include <iterator>
#include <set>
#include <string>

#include "builder.h"
#include "wire/geometry.h"

namespace itif::wire {
namespace {

using test::Bytes;
using test::encode;
using test::pattern;
using test::sample_header;
using test::with;

constexpr Type kAllTypes[] = {Type::kRequest, Type::kResponse, Type::kStatus, Type::kResend,
                              Type::kBusy,    Type::kAck,      Type::kHello,  Type::kToken,
                              Type::kPing,    Type::kPong};

bool may_have_payload(Type type) {
  return type != Type::kBusy && type != Type::kAck && type != Type::kHello && type != Type::kToken;
}
bool may_have_tag(Type type) {
  return type != Type::kHello && type != Type::kToken && type != Type::kPing && type != Type::kPong;
}

ParseError verdict(const Bytes& datagram) {
  Datagram parsed;
  return parse(datagram, parsed);
}

TEST(Parse, EveryTypeAndAuthRoundTrips) {
  for (Type type : kAllTypes)
    for (Auth auth : {Auth::kNone, Auth::kHeader, Auth::kFull, Auth::kSealed}) {
      if (auth != Auth::kNone && !may_have_tag(type)) continue;
      const Bytes payload = may_have_payload(type) ? pattern(16) : Bytes{};
      const Header header = sample_header(type, auth, payload.size());
      Bytes datagram = encode(header, payload);
      Datagram parsed;
      ASSERT_EQ(parse(datagram, parsed), ParseError::kNone) << type_name(type);
      EXPECT_EQ(open(test::test_key(), parsed), auth != Auth::kNone);
      EXPECT_EQ(parsed.header.header_bytes, header_size(auth));
      EXPECT_EQ(parsed.header.payload_bytes, payload.size());
      EXPECT_EQ(Bytes(parsed.payload.begin(), parsed.payload.end()), payload);
      EXPECT_EQ(parsed.tag.size(), auth == Auth::kNone ? 0u : kTagBytes);
      Header expected = header;
      expected.header_bytes = parsed.header.header_bytes;
      expected.payload_bytes = parsed.header.payload_bytes;
      EXPECT_EQ(std::memcmp(&expected, &parsed.header, kHeaderBytes), 0);
    }
}

TEST(Parse, EveryErrorIsReached) {
  const Bytes good = encode(sample_header(Type::kRequest, Auth::kHeader, 64), pattern(64));
  const Bytes status = encode(sample_header(Type::kStatus, Auth::kNone, 4), pattern(4));
  const struct {
    const char* what;
    Bytes datagram;
    ParseError expected;
  } cases[] = {
      {"good", good, ParseError::kNone},
      {"empty", {}, ParseError::kTooShort},
      {"one byte short of a header", Bytes(good.begin(), good.begin() + 65), ParseError::kTooShort},
      {"magic", with<uint16_t>(good, 0, 0x4650), ParseError::kBadMagic},
      {"version 0", with<uint8_t>(good, 2, 0), ParseError::kBadVersion},
      {"version 1", with<uint8_t>(good, 2, 1), ParseError::kBadVersion},
      {"version 3", with<uint8_t>(good, 2, 3), ParseError::kBadVersion},
      {"type 0", with<uint8_t>(good, 3, 0), ParseError::kBadType},
      {"type 11", with<uint8_t>(good, 3, 11), ParseError::kBadType},
      {"type that is request mod 16", with<uint8_t>(good, 3, 17), ParseError::kBadType},
      {"type 255", with<uint8_t>(good, 3, 255), ParseError::kBadType},
      {"tag without room for it", with<uint8_t>(good, 4, 66), ParseError::kBadHeaderSize},
      {"room for a tag without one", with<uint8_t>(good, 5, 0), ParseError::kBadHeaderSize},
      {"header size 255", with<uint8_t>(good, 4, 255), ParseError::kBadHeaderSize},
      {"auth 4", with<uint8_t>(good, 5, 4), ParseError::kBadHeaderSize},
      {"cut in the tag", Bytes(good.begin(), good.begin() + 76), ParseError::kBadLength},
      {"cut in the payload", Bytes(good.begin(), good.end() - 1), ParseError::kBadLength},
      {"a byte too many",
       [&] {
         auto d = good;
         d.push_back({});
         return d;
       }(),
       ParseError::kBadLength},
      {"payload_bytes lies", with<uint16_t>(good, 34, 65535), ParseError::kBadLength},
      {"payload kind 7", with<uint8_t>(good, 36, 7), ParseError::kBadKind},
      {"result kind unknown", with<uint8_t>(good, 37, std::size(kResultKinds)),
       ParseError::kBadKind},
      {"unknown flag", with<uint16_t>(good, 38, 0x8000), ParseError::kBadField},
      {"resend's flag on a request", with<uint16_t>(good, 38, kFlagOfResponse),
       ParseError::kBadField},
      {"status on a request", with<uint16_t>(good, 42, 1), ParseError::kBadField},
      {"a status that says ok", with<uint16_t>(status, 42, 0), ParseError::kBadField},
      {"a status code of a later version", with<uint16_t>(status, 42, 999), ParseError::kNone},
      {"total too large", with<uint32_t>(good, 22, kMaxTotalBytes + 1), ParseError::kBadGeometry},
  };
  std::set<ParseError> seen;
  for (const auto& c : cases) {
    EXPECT_EQ(verdict(c.datagram), c.expected)
        << c.what << ": " << parse_error_name(verdict(c.datagram));
    seen.insert(c.expected);
  }
  EXPECT_EQ(seen.size(), kNumParseErrors);
}

TEST(Parse, Geometry) {
  const struct {
    const char* what;
    uint32_t total, offset, fragment, payload;
    bool good;
  } cases[] = {
      {"empty message", 0, 0, 64, 0, true},
      {"empty message, payload", 0, 0, 64, 4, false},
      {"empty message, offset", 0, 64, 64, 0, false},
      {"one piece, fragment larger", 10, 0, 64, 10, true},
      {"one piece exactly", 64, 0, 64, 64, true},
      {"first of two", 100, 0, 64, 64, true},
      {"last of two", 100, 64, 64, 36, true},
      {"last of two, equal", 128, 64, 64, 64, true},
      {"offset at the end", 128, 128, 64, 0, false},
      {"offset past the end", 128, 192, 64, 0, false},
      {"offset near 2^32", 128, 0xffffffc0, 64, 64, false},
      {"offset between pieces", 256, 32, 64, 64, false},
      {"offset not of this fragment size", 4000, 1000, 1368, 1368, false},
      {"piece too short", 100, 0, 64, 60, false},
      {"piece too long", 100, 0, 64, 68, false},
      {"last piece too long", 100, 64, 64, 64, false},
      {"last piece too short", 100, 64, 64, 32, false},
      {"fragment 0", 0, 0, 0, 0, false},
      {"fragment below the least", 10, 0, 60, 10, false},
      {"fragment odd", 10, 0, 66, 10, false},
      {"fragment largest", 20000, 8896, 8896, 8896, true},
      {"fragment too large", 20000, 0, 8900, 8900, false},
      {"total largest", kMaxTotalBytes, 0, 8192, 8192, true},
      {"total largest, last piece", kMaxTotalBytes, kMaxTotalBytes - 8192, 8192, 8192, true},
      {"total too large", kMaxTotalBytes + 1, 0, 8192, 8192, false},
      {"total 2^32 - 1", 0xffffffff, 0, 8192, 8192, false},
  };
  for (const auto& c : cases)
    for (Type type : {Type::kRequest, Type::kResponse}) {
      Header header = sample_header(type, Auth::kNone, 0);
      header.total_bytes = c.total;
      header.offset = c.offset;
      header.fragment_bytes = static_cast<uint16_t>(c.fragment);
      // Writes the header by hand, because build() refuses payloads that are too long for any
      // datagram.
      Bytes datagram(kHeaderBytes + c.payload);
      header.payload_bytes = static_cast<uint16_t>(c.payload);
      std::memcpy(datagram.data(), &header, kHeaderBytes);
      EXPECT_EQ(verdict(datagram), c.good ? ParseError::kNone : ParseError::kBadGeometry) << c.what;
      if (c.good && type == Type::kRequest) {
        EXPECT_EQ(piece_bytes(c.total, c.fragment, c.offset), c.payload) << c.what;
        EXPECT_LT(c.offset / c.fragment, num_pieces(c.total, c.fragment)) << c.what;
      }
    }
}

TEST(Parse, ResendGeometry) {
  const auto resend = [](uint32_t total, uint32_t fragment, uint32_t payload) {
    Header header = sample_header(Type::kResend, Auth::kNone, 0);
    header.total_bytes = total;
    header.fragment_bytes = static_cast<uint16_t>(fragment);
    return verdict(encode(header, pattern(payload)));
  };
  EXPECT_EQ(resend(4000, 1000, 8), ParseError::kNone);
  EXPECT_EQ(resend(4000, 1000, 512), ParseError::kNone);
  EXPECT_EQ(resend(4000, 1000, 0), ParseError::kBadGeometry);
  EXPECT_EQ(resend(4000, 1000, 520), ParseError::kBadGeometry);
  EXPECT_EQ(resend(4000, 1000, 12), ParseError::kBadGeometry);
  EXPECT_EQ(resend(0, 1000, 8), ParseError::kBadGeometry);
  EXPECT_EQ(resend(kMaxTotalBytes, 1000, 8), ParseError::kNone);
  EXPECT_EQ(resend(kMaxTotalBytes + 1, 1000, 8), ParseError::kBadGeometry);
  EXPECT_EQ(resend(4000, 0, 8), ParseError::kBadGeometry);
  EXPECT_EQ(resend(4000, 1002, 8), ParseError::kBadGeometry);
}

TEST(Parse, SingleDatagramTypesHaveSeparateLimits) {
  EXPECT_EQ(verdict(encode(sample_header(Type::kStatus, Auth::kNone, 0), pattern(kMaxDetailBytes))),
            ParseError::kNone);
  EXPECT_EQ(
      verdict(encode(sample_header(Type::kStatus, Auth::kNone, 0), pattern(kMaxDetailBytes + 1))),
      ParseError::kBadGeometry);
  EXPECT_EQ(verdict(encode(sample_header(Type::kPing, Auth::kNone, 0), pattern(kMaxFragmentBytes))),
            ParseError::kNone);
  for (Type type : kAllTypes)
    if (!may_have_payload(type)) {
      EXPECT_EQ(verdict(encode(sample_header(type, Auth::kNone, 0), pattern(4))),
                ParseError::kBadField);
    }
  // total_bytes must equal the payload's length.
  EXPECT_EQ(verdict(with<uint32_t>(encode(sample_header(Type::kPing, Auth::kNone, 0), pattern(8)),
                                   22, 9)),
            ParseError::kBadGeometry);
}

// One row per field: the types that may set it. The parser must refuse it in all other types.
TEST(Parse, UnusedFieldsMustBeZero) {
  const std::set<Type> messages{Type::kRequest, Type::kResponse};
  const struct {
    const char* what;
    size_t offset;
    uint64_t value;
    size_t bytes;
    std::set<Type> allowed;
  } fields[] = {
      {"offset", offsetof(Header, offset), 1368, 4, messages},
      {"budget_us",
       offsetof(Header, budget_us),
       9,
       4,
       {Type::kRequest, Type::kResponse, Type::kToken, Type::kBusy}},
      {"payload_kind", offsetof(Header, payload_kind), 3, 1, {Type::kRequest}},
      {"result_kind", offsetof(Header, result_kind), 3, 1, messages},
      {"key_epoch",
       offsetof(Header, key_epoch),
       2,
       2,
       {Type::kRequest, Type::kResponse, Type::kStatus, Type::kResend, Type::kBusy, Type::kAck}},
      {"status", offsetof(Header, status), 3, 2, {Type::kStatus}},
      {"fragment_bytes",
       offsetof(Header, fragment_bytes),
       1368,
       2,
       {Type::kRequest, Type::kResponse, Type::kResend}},
      {"aux", offsetof(Header, aux), 1u << 31, 4, {Type::kResponse, Type::kStatus, Type::kBusy}},
      {"sequence",
       offsetof(Header, sequence),
       uint64_t{1} << 63,
       8,
       {Type::kRequest, Type::kResponse, Type::kStatus, Type::kResend, Type::kBusy, Type::kAck}},
      {"token",
       offsetof(Header, token),
       uint64_t{1} << 63,
       8,
       {Type::kRequest, Type::kResponse, Type::kStatus, Type::kResend, Type::kAck, Type::kToken}},
      {"flag no_cache", offsetof(Header, flags), kFlagNoCache, 2, {Type::kRequest}},
      {"flag segments", offsetof(Header, flags), kFlagSegments, 2, {Type::kRequest}},
      {"flag retry", offsetof(Header, flags), kFlagRetry, 2, {Type::kRequest}},
      {"flag of_response", offsetof(Header, flags), kFlagOfResponse, 2, {Type::kResend}},
      {"flag truncate", offsetof(Header, flags), kFlagTruncate, 2, {Type::kRequest}},
      {"flag model_version",
       offsetof(Header, flags),
       kFlagModelVersion,
       2,
       {Type::kRequest, Type::kResponse}},
      {"flag 0x40", offsetof(Header, flags), 0x40, 2, {}},
  };
  for (const auto& field : fields)
    for (Type type : kAllTypes) {
      // Two pieces, so that offset 1368 is valid for types that allow an offset.
      const size_t payload = type == Type::kResend ? 8 : messages.contains(type) ? 1368 : 0;
      Header header = sample_header(type, Auth::kNone, payload);
      if (messages.contains(type)) header.total_bytes = 2 * 1368;
      Bytes datagram = encode(header, pattern(payload));
      ASSERT_EQ(verdict(datagram), ParseError::kNone) << type_name(type);
      std::memcpy(datagram.data() + field.offset, &field.value, field.bytes);
      const bool allowed = field.allowed.contains(type);
      EXPECT_EQ(verdict(datagram), allowed ? ParseError::kNone : ParseError::kBadField)
          << field.what << " on " << type_name(type);
    }
}

TEST(Parse, ResponseHasAVersionOnlyWithTheFlag) {
  Header header = sample_header(Type::kResponse, Auth::kNone, 4);
  EXPECT_EQ(model_version(header), std::nullopt);
  set_model_version(header, 0x1'0000);
  EXPECT_EQ(model_version(header), 0);
  EXPECT_EQ(verdict(encode(header, pattern(4))), ParseError::kNone);
  set_model_version(header, 0x1'0007);
  Datagram parsed;
  const Bytes datagram = encode(header, pattern(4));
  ASSERT_EQ(parse(datagram, parsed), ParseError::kNone);
  EXPECT_EQ(model_version(parsed.header), 7);
  header.flags = 0;
  EXPECT_EQ(verdict(encode(header, pattern(4))), ParseError::kBadField);
  for (const Type type : {Type::kRequest, Type::kResend, Type::kBusy}) {
    Header other = sample_header(type, Auth::kNone, type == Type::kResend ? 8 : 0);
    other.flags |= kFlagModelVersion;
    other.status = static_cast<StatusCode>(7);
    EXPECT_EQ(verdict(encode(other, pattern(type == Type::kResend ? 8 : 0))), ParseError::kBadField)
        << type_name(type);
  }
}

TEST(Parse, HelloTokenPingPongCarryNoTag) {
  for (Type type : kAllTypes)
    EXPECT_EQ(verdict(encode(sample_header(type, Auth::kHeader, 8),
                             may_have_payload(type) ? pattern(8) : Bytes{})),
              may_have_tag(type) ? ParseError::kNone : ParseError::kBadField)
        << type_name(type);
}

TEST(Parse, BeginsWithTheMagic) {
  const Bytes datagram = encode(sample_header(Type::kRequest, Auth::kNone, 0));
  EXPECT_EQ(static_cast<char>(datagram[0]), 'I');
  EXPECT_EQ(static_cast<char>(datagram[1]), 'F');
}

TEST(Names, AreDistinctAndComplete) {
  std::set<std::string> names;
  for (size_t i = 0; i < kNumParseErrors; ++i)
    names.insert(parse_error_name(static_cast<ParseError>(i)));
  EXPECT_EQ(names.size(), kNumParseErrors);
  EXPECT_FALSE(names.contains("?"));
  EXPECT_STREQ(parse_error_name(static_cast<ParseError>(kNumParseErrors)), "?");
  names.clear();
  for (uint16_t i = 0; i < kNumStatusCodes; ++i)
    names.insert(status_name(static_cast<StatusCode>(i)));
  EXPECT_EQ(names.size(), kNumStatusCodes);
  EXPECT_FALSE(names.contains("?"));
  EXPECT_STREQ(type_name(static_cast<Type>(0)), "?");
}

}  // namespace
}  // namespace itif::wire
