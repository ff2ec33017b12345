// Identifies the content of weights, so that equal weights are stored once: a 128-bit hash of the
// source tensors' types, shapes and bytes.
//
// The hash is GCM's GHASH, followed by the number of bytes, under a random key that never leaves
// the process. For any two contents of at most n blocks of 16 bytes, chosen without the key, the
// chance of equal hashes is at most (n + 1) / 2^128: 2^-101 for 1 GiB. A tenant therefore cannot
// prepare a model whose weights replace, or reveal, another's. A faster hash without a key (xxHash)
// does not promise this; keyless ones that do (BLAKE2b) and Poly1305 take several times as long.
// Source: McGrew and Viega, "The security and performance of the Galois/Counter Mode (GCM) of
// operation", INDOCRYPT 2004, section 4; NIST SP 800-38D, section 6.4.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace itif::model {

// Compares only with those of the same key.
struct ContentId {
  std::array<std::byte, 16> tag = {};
  auto operator<=>(const ContentId&) const = default;
};

class ContentKey {
 public:
  ContentKey();  // random
  explicit ContentKey(std::span<const std::byte, 16> key);
  ~ContentKey();

 private:
  friend class ContentHash;
  struct Expanded;  // the key's powers
  std::unique_ptr<const Expanded> expanded_;
};

class ContentHash {
 public:
  // `key` outlives the object.
  explicit ContentHash(const ContentKey& key) : key_(*key.expanded_) {}
  void add(std::span<const std::byte> bytes);
  void add(uint64_t number);
  // Returns the hash of the added bytes. Call it once.
  ContentId finish();

 private:
  static constexpr size_t kBlock = 16;
  void add_blocks(std::span<const std::byte> blocks);  // of whole blocks

  const ContentKey::Expanded& key_;
  ContentId state_;
  std::array<std::byte, kBlock> begun_ = {};  // the first bytes of a block
  uint64_t num_bytes_ = 0;
};

}  // namespace itif::model
