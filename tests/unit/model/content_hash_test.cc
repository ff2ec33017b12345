// The hash of weights' contents, against GHASH computed bit by bit.
#include "model/content_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace itif::model {
namespace {

using Block = std::array<std::byte, 16>;

bool bit(const Block& block, size_t i) {
  return (std::to_integer<unsigned>(block[i / 8]) >> (7 - i % 8) & 1) != 0;
}

Block sum(const Block& a, const Block& b) {
  Block made;
  for (size_t i = 0; i < made.size(); ++i) made[i] = a[i] ^ b[i];
  return made;
}

// NIST SP 800-38D, algorithm 1.
Block product(const Block& x, const Block& y) {
  Block z{}, v = y;
  for (size_t i = 0; i < 128; ++i) {
    if (bit(x, i)) z = sum(z, v);
    const bool is_odd = bit(v, 127);
    for (size_t byte = v.size(); byte-- > 0;)
      v[byte] = v[byte] >> 1 | (byte > 0 ? v[byte - 1] << 7 : std::byte{0});
    if (is_odd) v[0] ^= std::byte{0xe1};
  }
  return z;
}

// NIST SP 800-38D, algorithm 2.
Block ghash(const Block& key, const std::vector<Block>& blocks) {
  Block made{};
  for (const Block& block : blocks) made = product(sum(made, block), key);
  return made;
}

Block from_hex(std::string_view digits) {
  Block made;
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = static_cast<std::byte>(std::stoi(std::string(digits.substr(2 * i, 2)), nullptr, 16));
  return made;
}

Block expected(const Block& key, std::span<const std::byte> bytes) {
  std::vector<Block> blocks((bytes.size() + 15) / 16, Block{});
  for (size_t i = 0; i < bytes.size(); ++i) blocks[i / 16][i % 16] = bytes[i];
  const uint64_t size = bytes.size();
  std::memcpy(blocks.emplace_back(Block{}).data(), &size, sizeof size);
  return ghash(key, blocks);
}

std::vector<std::byte> random_bytes(std::mt19937_64& random, size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Test case 2 of McGrew and Viega's specification of GCM.
TEST(ContentHash, TheReferenceIsGhash) {
  const Block key = from_hex("66e94bd4ef8a2c3b884cfa59ca342b2e");
  const Block text = from_hex("0388dace60b6a392f328c2b971b2fe78");
  const Block lengths = from_hex("00000000000000000000000000000080");
  EXPECT_EQ(ghash(key, {text, lengths}), from_hex("f38cbb1ad69223dcc3457ae5b6b0f885"));
}

TEST(ContentHash, IsTheReferenceOfAnyBytesAddedInAnyPieces) {
  std::mt19937_64 random(1);
  for (size_t size = 0; size < 200; ++size) {
    Block key;
    std::ranges::copy(random_bytes(random, key.size()), key.begin());
    const ContentKey expanded(key);
    const std::vector<std::byte> bytes = random_bytes(random, size);
    ContentHash whole(expanded), pieces(expanded);
    whole.add(bytes);
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const size_t count = std::min<size_t>(rest.size(), random() % 40);
      pieces.add(rest.first(count));
      rest = rest.subspan(count);
    }
    EXPECT_EQ(whole.finish().tag, expected(key, bytes)) << size;
    EXPECT_EQ(pieces.finish().tag, expected(key, bytes)) << size;
  }
}

TEST(ContentHash, LargeContentsMayBeAddedAtOnceOrInPieces) {
  std::mt19937_64 random(2);
  const std::vector<std::byte> bytes = random_bytes(random, (5 << 20) + 7);
  const ContentKey key;
  ContentHash whole(key), pieces(key);
  whole.add(bytes);
  for (size_t at = 0; at < bytes.size(); at += 1000)
    pieces.add(std::span(bytes).subspan(at, std::min<size_t>(1000, bytes.size() - at)));
  EXPECT_EQ(whole.finish(), pieces.finish());
}

TEST(ContentHash, ZerosAtTheEndCount) {
  const ContentKey key;
  std::vector<ContentId> ids;
  for (size_t size : {0, 1, 15, 16, 17, 32}) {
    ContentHash hash(key);
    hash.add(std::vector<std::byte>(size));
    ids.push_back(hash.finish());
  }
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

TEST(ContentHash, DependsOnTheKey) {
  const ContentKey a, b;
  ContentHash of_a(a), of_b(b);
  of_a.add(uint64_t{1});
  of_b.add(uint64_t{1});
  EXPECT_NE(of_a.finish(), of_b.finish());
}

}  // namespace
}  // namespace itif::model
