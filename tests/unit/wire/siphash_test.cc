// Checks our SipHash-2-4-128 against the reference vectors, and against libsodium at every split.
#include "wire/siphash.h"

#include <gtest/gtest.h>
#include <sodium.h>

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
template <class Noticed>
void flip_every_bit(test::Bytes datagram, Noticed noticed) {
  for (size_t bit = 0; bit < datagram.size() * 8; ++bit) {
    datagram[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    Datagram parsed;
    const bool accepted =
        parse(datagram, parsed) == ParseError::kNone && verify_tag(test::test_key(), parsed);
    noticed(bit / 8, !accepted);
    datagram[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
  }
}

TEST(Tag, HeaderModeNoticesEveryBitOfHeaderAndTag) {
  const auto datagram =
      test::encode(test::sample_header(Type::kRequest, Auth::kHeader, 64), test::pattern(64));
  flip_every_bit(datagram, [](size_t byte, bool noticed) {
    // The tag does not cover the payload, as docs/protocol.md says.
    EXPECT_EQ(noticed, byte < kHeaderBytes + kTagBytes) << "byte " << byte;
  });
}

TEST(Tag, FullModeNoticesEveryBit) {
  for (size_t payload_bytes : {0u, 1u, 5u, 6u, 7u, 64u}) {
    const auto datagram =
        test::encode(test::sample_header(Type::kRequest, Auth::kFull, payload_bytes),
                     test::pattern(payload_bytes));
    flip_every_bit(datagram, [](size_t byte, bool noticed) { EXPECT_TRUE(noticed) << byte; });
  }
}

TEST(Tag, NoTagIsNeverValid) {
  const auto datagram =
      test::encode(test::sample_header(Type::kRequest, Auth::kNone, 8), test::pattern(8));
  Datagram parsed;
  ASSERT_EQ(parse(datagram, parsed), ParseError::kNone);
  EXPECT_FALSE(verify_tag(test::test_key(), parsed));
}

TEST(Tag, AnotherKeyIsRefused) {
  const auto datagram = test::encode(test::sample_header(Type::kAck, Auth::kHeader, 0));
  Datagram parsed;
  ASSERT_EQ(parse(datagram, parsed), ParseError::kNone);
  EXPECT_TRUE(verify_tag(test::test_key(), parsed));
  EXPECT_FALSE(verify_tag(test::test_key(1), parsed));
}

TEST(AddressToken, BoundToAddressPortSessionPeriodAndSecret) {
  const Key secret = test::test_key(9);
  const auto v4 = test::pattern(4);
  auto v6 = test::pattern(16);
  const uint32_t token = address_token(secret, v4, 5000, 77, 10);
  EXPECT_NE(token, 0u);
  EXPECT_EQ(token, address_token(secret, v4, 5000, 77, 10));
  EXPECT_NE(token, address_token(secret, v6, 5000, 77, 10));
  EXPECT_NE(token, address_token(secret, v4, 5001, 77, 10));
  EXPECT_NE(token, address_token(secret, v4, 5000, 78, 10));
  EXPECT_NE(token, address_token(secret, v4, 5000, 77, 11));
  EXPECT_NE(token, address_token(test::test_key(10), v4, 5000, 77, 10));
  // An IPv4 address and the IPv6 address that begins with it are different inputs.
  std::fill(v6.begin(), v6.end(), std::byte{0});
  std::copy(v4.begin(), v4.end(), v6.begin());
  EXPECT_NE(token, address_token(secret, v6, 5000, 77, 10));
}

TEST(AddressToken, ValidInItsPeriodAndTheNext) {
  const Key secret = test::test_key(9);
  const auto address = test::pattern(4);
  const uint32_t token = address_token(secret, address, 5000, 77, 10);
  EXPECT_FALSE(address_token_valid(secret, address, 5000, 77, 9, token));
  EXPECT_TRUE(address_token_valid(secret, address, 5000, 77, 10, token));
  EXPECT_TRUE(address_token_valid(secret, address, 5000, 77, 11, token));
  EXPECT_FALSE(address_token_valid(secret, address, 5000, 77, 12, token));
  EXPECT_FALSE(address_token_valid(secret, address, 5000, 77, 10, 0));
  EXPECT_FALSE(address_token_valid(secret, address, 5000, 77, 0, token));
}

}  // namespace
}  // namespace itif::wire
