// SipHash-2-4 with a 128-bit output over two separate buffers. A full tag thus covers header and
// payload without copying either. libsodium's crypto_shorthash_siphashx24 has the same output but
// needs one contiguous buffer.
//
// Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, and its reference code.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace itif::wire {

class SipHash128 {
 public:
  explicit SipHash128(const std::array<std::byte, 16>& key) noexcept {
    static_assert(std::endian::native == std::endian::little, "words are read in native order");
    uint64_t k[2];
    std::memcpy(k, key.data(), sizeof k);
    v0_ = k[0] ^ 0x736f6d6570736575u;
    v1_ = k[1] ^ 0x646f72616e646f6du ^ 0xee;  // 0xee: 128-bit output
    v2_ = k[0] ^ 0x6c7967656e657261u;
    v3_ = k[1] ^ 0x7465646279746573u;
  }

  void word(uint64_t m) noexcept {
    v3_ ^= m;
    round();
    round();
    v0_ ^= m;
  }

  // `last` holds the input's final bytes (total_bytes mod 8 of them, low byte first).
  std::array<std::byte, 16> finish(uint64_t last, size_t total_bytes) noexcept {
    word(last | static_cast<uint64_t>(total_bytes) << 56);
    v2_ ^= 0xee;
    for (int i = 0; i < 4; ++i) round();
    uint64_t out[2];
    out[0] = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xdd;
    for (int i = 0; i < 4; ++i) round();
    out[1] = v0_ ^ v1_ ^ v2_ ^ v3_;
    std::array<std::byte, 16> tag;
    std::memcpy(tag.data(), out, sizeof out);
    return tag;
  }

 private:
  void round() noexcept {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  uint64_t v0_, v1_, v2_, v3_;
};

inline uint64_t load_word(const std::byte* data) noexcept {
  uint64_t value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// Reads up to 7 bytes as a little-endian number.
inline uint64_t load_bytes(const std::byte* data, size_t bytes) noexcept {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(data[i]) << (8 * i);
  return value;
}

// Hashes head ‖ tail.
inline std::array<std::byte, 16> siphash128(const std::array<std::byte, 16>& key,
                                            std::span<const std::byte> head,
                                            std::span<const std::byte> tail) noexcept {
  SipHash128 hash(key);
  const size_t total_bytes = head.size() + tail.size();
  const std::byte* p = head.data();
  size_t left = head.size();
  for (; left >= 8; p += 8, left -= 8) hash.word(load_word(p));

  // The head's last `carry` bytes share a word with the tail's first bytes. Every later word of the
  // tail is split at the same position.
  uint64_t pending = load_bytes(p, left);
  const size_t carry = left;
  const unsigned shift = static_cast<unsigned>(carry) * 8;
  p = tail.data();
  left = tail.size();
  if (carry == 0) {
    for (; left >= 8; p += 8, left -= 8) hash.word(load_word(p));
    return hash.finish(load_bytes(p, left), total_bytes);
  }
  for (; left >= 8; p += 8, left -= 8) {
    const uint64_t next = load_word(p);
    hash.word(pending | next << shift);
    pending = next >> (64 - shift);
  }
  const uint64_t rest = load_bytes(p, left);
  pending |= rest << shift;
  if (carry + left >= 8) {
    hash.word(pending);
    pending = rest >> (64 - shift);
  }
  return hash.finish(pending, total_bytes);
}

}  // namespace itif::wire
