// A hash index of fixed capacity over the elements of its owner's array. It holds the hash and the
// slot of each element, not its key: eight buckets share a cache line, and the owner compares keys
// where hashes are equal. Open addressing with linear probing and backward-shift deletion, at most
// half full. Allocates only at construction. One owner thread.
//
// Hashes must come from a secret seed: whoever can choose equal hashes can make every lookup slow.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/huge_vector.h"

namespace itif::net {

class KeyIndex {
 public:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  explicit KeyIndex(uint32_t capacity);
  // Returns the slot with this hash for which `has_key(slot)` is true, or kAbsent.
  template <class HasKey>
  uint32_t find(uint32_t hash, HasKey has_key) const noexcept {
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Bucket bucket = buckets_[at];
      if (bucket.slot == kAbsent || (bucket.hash == hash && has_key(bucket.slot)))
        return bucket.slot;
    }
  }
  // Begins to load the memory that find() will read. Inline, because GCC 12 removes calls of
  // functions that only prefetch.
  [[gnu::always_inline]] void prefetch(uint32_t hash) const noexcept {
    __builtin_prefetch(&buckets_[hash & mask_]);
  }
  // REQUIRES: the slot is absent and size() < capacity.
  void insert(uint32_t hash, uint32_t slot) noexcept;
  // REQUIRES: the slot was inserted with this hash.
  void erase(uint32_t hash, uint32_t slot) noexcept;
  uint32_t size() const noexcept { return size_; }

 private:
  struct Bucket {
    uint32_t hash = 0;
    uint32_t slot = kAbsent;
  };

  HugeVector<Bucket> buckets_;
  size_t mask_;
  uint32_t size_ = 0;
  uint32_t capacity_;
};

}  // namespace itif::net
