#include "model/content_hash.h"

#include <sodium/core.h>

#include "base/check.h"

namespace itif::model {

ContentKey::ContentKey() {
  CHECK(sodium_init() >= 0);  // finds the CPU's fastest implementation
  crypto_onetimeauth_keygen(key_.data());
}

ContentHash::ContentHash(const ContentKey& key) {
  crypto_onetimeauth_init(&state_, key.data());
}

void ContentHash::add(std::span<const std::byte> bytes) {
  crypto_onetimeauth_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()),
                            bytes.size());
}

void ContentHash::add(uint64_t number) {
  add(std::as_bytes(std::span(&number, 1)));
}

ContentId ContentHash::finish() {
  ContentId id;
  crypto_onetimeauth_final(&state_, reinterpret_cast<unsigned char*>(id.tag.data()));
  return id;
}

}  // namespace itif::model
