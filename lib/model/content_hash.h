// Identifies the content of weights, so that equal weights are stored once: a 128-bit hash of the
// source tensors' types, shapes and bytes.
//
// The hash is Poly1305 under a random key that never leaves the process. For any two contents of at
// most L bytes, chosen without the key, the chance of equal hashes is at most 8 ⌈L/16⌉ / 2^106:
// 2^-77 for 1 GiB. A tenant therefore cannot prepare a model whose weights replace, or reveal,
// another's. A faster hash without a key (xxHash) does not promise this, and a keyless one that
// does (BLAKE2b) takes twice the time.
// Source: Bernstein, "The Poly1305-AES message-authentication code", 2005, theorem 3.3.
#pragma once

#include <sodium/crypto_onetimeauth.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

namespace itif::model {

// Compares only with those of the same key.
struct ContentId {
  std::array<std::byte, crypto_onetimeauth_BYTES> tag = {};
  auto operator<=>(const ContentId&) const = default;
};

class ContentKey {
 public:
  ContentKey();  // random
  const unsigned char* data() const { return key_.data(); }

 private:
  std::array<unsigned char, crypto_onetimeauth_KEYBYTES> key_;
};

class ContentHash {
 public:
  // `key` outlives the object.
  explicit ContentHash(const ContentKey& key);
  void add(std::span<const std::byte> bytes);
  void add(uint64_t number);
  // Returns the hash of the added bytes. Call it once.
  ContentId finish();

 private:
  crypto_onetimeauth_state state_;
};

}  // namespace itif::model
