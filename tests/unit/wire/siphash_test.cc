// Checks our SipHash-2-4-128 against the reference vectors, and against libsodium at every split.
// Tags, encryption and address tokens.
#include "wire/siphash.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "builder.h"

namespace itif::wire {
namespace {

std::array<std::byte, 16> bytes16(const unsigned char (&values)[16]) {
  std::array<std::byte, 16> out;
  std::memcpy(out.data(), values, 16);
  return out;
}

// Source: vectors_sip128 of the reference code: key 00 … 0f, input 00, 01, … of the given length.
TEST(SipHash, ReferenceVectors) {
  test::Bytes input(64);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::byte>(i);
  const auto hash = [&](size_t bytes) {
    return siphash128(test::test_key(), std::span(input).first(bytes), {});
  };
  EXPECT_EQ(hash(0), bytes16({0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72,
                              0x14, 0xc7, 0x55, 0x02, 0x93}));
  EXPECT_EQ(hash(1), bytes16({0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59,
                              0x11, 0x9b, 0x22, 0xfc, 0x45}));
  EXPECT_EQ(hash(2), bytes16({0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b,
                              0xde, 0xf6, 0x0a, 0xff, 0xe4}));
}

TEST(SipHash, AgreesWithLibsodiumAtEverySplit) {
  Random random(1);
  test::Bytes input(96);
  for (auto& byte : input) byte = static_cast<std::byte>(random.next());
  Key key;
  for (auto& byte : key) byte = static_cast<std::byte>(random.next());
  for (size_t bytes = 0; bytes <= input.size(); ++bytes) {
    std::array<std::byte, 16> expected;
    crypto_shorthash_siphashx24(reinterpret_cast<unsigned char*>(expected.data()),
                                reinterpret_cast<const unsigned char*>(input.data()), bytes,
                                reinterpret_cast<const unsigned char*>(key.data()));
    for (size_t split = 0; split <= bytes; ++split) {
      const std::span<const std::byte> all(input.data(), bytes);
      ASSERT_EQ(siphash128(key, all.first(split), all.subspan(split)), expected)
          << bytes << " bytes, split at " << split;
    }
  }
}

TEST(Tag, FullCoversHeaderThenPayloadAsOneInput) {
  const test::Bytes payload = test::pattern(1001);
  Header header = test::sample_header(Type::kRequest, Auth::kFull, payload.size());
  const test::Bytes datagram = test::encode(header, payload);
  test::Bytes covered(datagram.begin(), datagram.begin() + kHeaderBytes);
  covered.insert(covered.end(), payload.begin(), payload.end());
  const Key key = test::test_key();
  std::array<std::byte, 16> expected;
  crypto_shorthash_siphashx24(reinterpret_cast<unsigned char*>(expected.data()),
                              reinterpret_cast<const unsigned char*>(covered.data()),
                              covered.size(), reinterpret_cast<const unsigned char*>(key.data()));
  EXPECT_EQ(std::memcmp(datagram.data() + kHeaderBytes, expected.data(), 16), 0);
}

// Flips each bit of a datagram in turn and calls noticed(byte, whether the flip was detected).
// A refused datagram is not decrypted: its payload is as it was, or, if sealed, zero.
template <class Noticed>
void flip_every_bit(const test::Bytes& datagram, Noticed noticed) {
  for (size_t bit = 0; bit < datagram.size() * 8; ++bit) {
    test::Bytes flipped = datagram;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    test::Bytes expected = flipped;
    Datagram parsed;
    const bool is_good = parse(flipped, parsed) == ParseError::kNone;
    if (is_good && parsed.header.auth == Auth::kSealed)
      std::fill(expected.begin() + header_size(Auth::kSealed), expected.end(), std::byte{});
    const bool accepted = is_good && open(test::test_key(), parsed);
    noticed(bit / 8, !accepted);
    if (!accepted) {
      ASSERT_EQ(flipped, expected);
    }
  }
}

TEST(Tag, HeaderModeNoticesEveryBitOfHeaderAndTag) {
  const auto datagram =
      test::encode(test::sample_header(Type::kRequest, Auth::kHeader, 64), test::pattern(64));
  flip_every_bit(datagram, [](size_t byte, bool noticed) {
    // The tag does not cover the payload of a message, as docs/protocol.md says.
    EXPECT_EQ(noticed, byte < kHeaderBytes + kTagBytes) << "byte " << byte;
  });
}

// An attacker cannot make a server send other pieces, or change a status's text.
TEST(Tag, HeaderModeNoticesEveryBitOfRangesAndTexts) {
  for (Type type : {Type::kResend, Type::kStatus}) {
    const auto datagram = test::encode(test::sample_header(type, Auth::kHeader, 16), [] {
      test::Bytes ranges(16);
      ranges[4] = ranges[12] = std::byte{100};  // 100 bytes at 0, 100 at 200
      ranges[8] = std::byte{200};
      return ranges;
    }());
    flip_every_bit(datagram, [](size_t byte, bool noticed) { EXPECT_TRUE(noticed) << byte; });
  }
}

TEST(Tag, CoversThePayloadExceptOfMessagesUnderHeader) {
  for (Auth auth : {Auth::kHeader, Auth::kFull, Auth::kSealed})
    for (Type type :
         {Type::kRequest, Type::kResponse, Type::kStatus, Type::kResend, Type::kBusy, Type::kAck}) {
      const bool is_message = type == Type::kRequest || type == Type::kResponse;
      EXPECT_EQ(tag_covers_payload(auth, type), auth != Auth::kHeader || !is_message)
          << auth_name(auth) << ' ' << type_name(type);
    }
}

TEST(Tag, FullAndSealedModeNoticeEveryBit) {
  for (Auth auth : {Auth::kFull, Auth::kSealed})
    for (size_t payload_bytes : {0u, 1u, 5u, 6u, 7u, 64u}) {
      const auto datagram = test::encode(test::sample_header(Type::kRequest, auth, payload_bytes),
                                         test::pattern(payload_bytes));
      flip_every_bit(datagram, [](size_t byte, bool noticed) { EXPECT_TRUE(noticed) << byte; });
    }
}

TEST(Sealed, RoundTripsInPlace) {
  for (size_t payload_bytes : {0u, 1u, 63u, 64u, 65u, 1000u}) {
    const test::Bytes payload = test::pattern(payload_bytes);
    test::Bytes datagram =
        test::encode(test::sample_header(Type::kRequest, Auth::kSealed, payload_bytes), payload);
    ASSERT_EQ(datagram.size(), kHeaderBytes + kTagBytes + payload_bytes);
    if (payload_bytes > 16) {
      EXPECT_FALSE(std::equal(payload.begin(), payload.end(), datagram.begin() + 82));
    }
    Datagram parsed;
    ASSERT_EQ(parse(datagram, parsed), ParseError::kNone);
    EXPECT_FALSE(verify_tag(test::test_key(), parsed));  // only open() verifies it
    ASSERT_TRUE(open(test::test_key(), parsed));
    EXPECT_TRUE(std::ranges::equal(parsed.payload, payload));
  }
}

TEST(Sealed, AgreesWithLibsodium) {
  const test::Bytes payload = test::pattern(100);
  const Key tenant = test::test_key(40);
  Header header = test::sample_header(Type::kResponse, Auth::kSealed, payload.size());
  header.flags = kFlagModelVersion;
  const test::Bytes datagram = test::encode(header, payload, tenant);

  unsigned char key[32];
  for (unsigned char half = 0; half < 2; ++half) {
    const unsigned char input = half + 1;
    crypto_shorthash_siphashx24(key + 16 * half, &input, 1,
                                reinterpret_cast<const unsigned char*>(tenant.data()));
  }
  unsigned char nonce[24] = {};  // sequence, request, session, type, flags, as in the header
  const auto* bytes = reinterpret_cast<const unsigned char*>(datagram.data());
  std::memcpy(nonce, bytes + 50, 8);
  std::memcpy(nonce + 8, bytes + 14, 8);
  std::memcpy(nonce + 16, bytes + 10, 4);
  nonce[20] = bytes[3];
  std::memcpy(nonce + 21, bytes + 38, 2);
  test::Bytes opened(payload.size());
  ASSERT_EQ(crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
                reinterpret_cast<unsigned char*>(opened.data()), nullptr, bytes + 82,
                payload.size(), bytes + 66, bytes, 66, nonce, key),
            0);
  EXPECT_EQ(opened, payload);
}

// The nonce consists of these fields: two datagrams that differ in one of them have nothing in
// common after encryption.
TEST(Sealed, EachFieldOfTheNonceChangesTheStream) {
  const test::Bytes payload(64);
  const Header header = test::sample_header(Type::kRequest, Auth::kSealed, payload.size());
  const auto stream = [&](const Header& h) {
    const test::Bytes datagram = test::encode(h, payload);
    return test::Bytes(datagram.begin() + 82, datagram.end());
  };
  std::set<test::Bytes> streams{stream(header)};
  Header other = header;
  ++other.sequence;
  streams.insert(stream(other));
  other = header;
  ++other.request_id;
  streams.insert(stream(other));
  other = header;
  ++other.session;
  streams.insert(stream(other));
  other = header;
  other.type = Type::kResponse;
  other.payload_kind = {};
  streams.insert(stream(other));
  other = header;
  other.flags = kFlagRetry;
  streams.insert(stream(other));
  EXPECT_EQ(streams.size(), 6u);
}

TEST(Tag, NoTagIsNeverValid) {
  const auto datagram =
      test::encode(test::sample_header(Type::kRequest, Auth::kNone, 8), test::pattern(8));
  Datagram parsed;
  ASSERT_EQ(parse(datagram, parsed), ParseError::kNone);
  EXPECT_FALSE(verify_tag(test::test_key(), parsed));
  EXPECT_FALSE(open(test::test_key(), parsed));
}

TEST(Tag, AnotherKeyIsRefused) {
  for (Auth auth : {Auth::kHeader, Auth::kFull, Auth::kSealed}) {
    auto datagram = test::encode(test::sample_header(Type::kRequest, auth, 20), test::pattern(20));
    auto copy = datagram;
    EXPECT_FALSE(test::opens(copy, test::test_key(1)));
    EXPECT_TRUE(test::opens(datagram));
  }
}

TEST(AddressToken, BoundToItsInputPeriodAndSecret) {
  const Key secret = test::test_key(9);
  const auto v4 = test::pattern(4);
  auto v6 = test::pattern(16);
  const TokenInput input = {.address = v4, .port = 5000, .session = 77, .receiver = 2};
  const uint64_t token = address_token(secret, input, 10);
  EXPECT_NE(token, 0u);
  EXPECT_NE(token >> 32, 0u);  // 64 bits
  EXPECT_EQ(token, address_token(secret, input, 10));
  EXPECT_NE(token, address_token(secret, input, 11));
  EXPECT_NE(token, address_token(test::test_key(10), input, 10));
  TokenInput other = input;
  other.port = 5001;
  EXPECT_NE(token, address_token(secret, other, 10));
  other = input;
  other.session = 78;
  EXPECT_NE(token, address_token(secret, other, 10));
  other = input;
  other.receiver = 3;
  EXPECT_NE(token, address_token(secret, other, 10));
  other = input;
  other.address = v6;
  EXPECT_NE(token, address_token(secret, other, 10));
  // An IPv4 address and the IPv6 address that begins with it are different inputs.
  std::fill(v6.begin(), v6.end(), std::byte{0});
  std::copy(v4.begin(), v4.end(), v6.begin());
  EXPECT_NE(token, address_token(secret, other, 10));
}

}  // namespace
}  // namespace itif::wire
