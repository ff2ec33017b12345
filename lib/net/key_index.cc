#include "net/key_index.h"

#include <bit>

#include "base/check.h"

namespace itif::net {

KeyIndex::KeyIndex(uint32_t capacity)
    : buckets_(std::bit_ceil(size_t{capacity} * 2 + 1)),
      mask_(buckets_.size() - 1),
      capacity_(capacity) {}

uint32_t KeyIndex::find(const HashedKey& key) const noexcept {
  for (size_t at = key.hash & mask_;; at = (at + 1) & mask_) {
    const Bucket& bucket = buckets_[at];
    if (bucket.slot == kAbsent || bucket.key == key) return bucket.slot;
  }
}

void KeyIndex::insert(const HashedKey& key, uint32_t slot) noexcept {
  DCHECK(size_ < capacity_ && slot != kAbsent);
  size_t at = key.hash & mask_;
  while (buckets_[at].slot != kAbsent) at = (at + 1) & mask_;
  buckets_[at] = {key, slot};
  ++size_;
}

bool KeyIndex::erase(const HashedKey& key) noexcept {
  size_t hole = key.hash & mask_;
  while (buckets_[hole].slot != kAbsent && !(buckets_[hole].key == key)) hole = (hole + 1) & mask_;
  if (buckets_[hole].slot == kAbsent) return false;
  // Moves back keys that the hole would cut off from their home bucket. Source: Knuth, volume 3,
  // section 6.4, algorithm R.
  for (size_t at = (hole + 1) & mask_; buckets_[at].slot != kAbsent; at = (at + 1) & mask_) {
    const size_t probes_needed = (at - buckets_[at].key.hash) & mask_;
    if (probes_needed >= ((at - hole) & mask_)) {
      buckets_[hole] = buckets_[at];
      hole = at;
    }
  }
  buckets_[hole].slot = kAbsent;
  --size_;
  return true;
}

}  // namespace itif::net
