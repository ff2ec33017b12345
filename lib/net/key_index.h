// A hash index of fixed capacity: MessageKey → slot number of the owner's array. Open addressing
// with linear probing and backward-shift deletion, at most half full. Allocates only at
// construction. One owner thread. All keys of an index are hashed with the same seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_vector.h"
#include "net/message_key.h"

namespace itif::net {

class KeyIndex {
 public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  explicit KeyIndex(uint32_t capacity);
  // Returns kAbsent if the key is not there.
  uint32_t find(const HashedKey& key) const noexcept;
  // Begins to load the memory that find() will read. Inline, because GCC 12 removes calls of
  // functions that only prefetch.
  [[gnu::always_inline]] void prefetch(const HashedKey& key) const noexcept {
    __builtin_prefetch(&buckets_[key.hash & mask_]);
  }
  // REQUIRES: the key is absent and size() < capacity.
  void insert(const HashedKey& key, uint32_t slot) noexcept;
  // Returns false if the key was not there.
  bool erase(const HashedKey& key) noexcept;
  uint32_t size() const noexcept { return size_; }

 private:
  struct Bucket {
    HashedKey key;
    uint32_t slot = kAbsent;
  };

  HugeVector<Bucket> buckets_;
  size_t mask_;
  uint32_t size_ = 0;
  uint32_t capacity_;
};

}  // namespace itif::net
