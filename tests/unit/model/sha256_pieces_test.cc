#include "model/sha256_pieces.h"

#include <gtest/gtest.h>
#include <sodium/crypto_hash_sha256.h>

#include <algorithm>
#include <thread>

#include "base/random.h"

namespace itif::model {
namespace {

std::vector<std::byte> random_bytes(size_t count) {
  Random random(count);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

void expect_libsodiums(std::span<const std::byte> bytes) {
  std::vector<Sha256> expected;
  for (size_t at = 0; at < bytes.size(); at += kSha256PieceBytes) {
    const auto piece = bytes.subspan(at, std::min(bytes.size() - at, kSha256PieceBytes));
    crypto_hash_sha256(reinterpret_cast<unsigned char*>(expected.emplace_back().data()),
                       reinterpret_cast<const unsigned char*>(piece.data()), piece.size());
  }
  EXPECT_EQ(sha256_pieces(bytes), expected) << bytes.size();
}

TEST(Sha256Pieces, EqualLibsodiums) {
  for (const size_t size : {0, 1, 55, 56, 63, 64, 65, 4095, 4096, 4097, 8192, 15 * 4096, 16 * 4096,
                            17 * 4096 + 100, 256 << 10, (256 << 10) + 1, 1 << 20})
    expect_libsodiums(random_bytes(size));
}

TEST(Sha256Pieces, AnyThread) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i)
    threads.emplace_back([i] { expect_libsodiums(random_bytes(100'000 + i)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace itif::model
