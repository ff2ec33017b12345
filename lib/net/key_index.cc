#include "net/key_index.h"

#include <bit>

#include "base/check.h"

namespace itif::net {

KeyIndex::KeyIndex(uint32_t capacity)
    : buckets_(std::bit_ceil(size_t{capacity} * 2 + 1)),
      mask_(buckets_.size() - 1),
      capacity_(capacity) {}

void KeyIndex::insert(uint32_t hash, uint32_t slot) noexcept {
  DCHECK(size_ < capacity_ && slot != kAbsent);
  size_t at = hash & mask_;
  while (buckets_[at].slot != kAbsent) at = (at + 1) & mask_;
  buckets_[at] = {hash, slot};
  ++size_;
}

void KeyIndex::erase(uint32_t hash, uint32_t slot) noexcept {
  size_t hole = hash & mask_;
  while (buckets_[hole].slot != slot) {
    CHECK(buckets_[hole].slot != kAbsent);
    hole = (hole + 1) & mask_;
  }
  // Moves back elements that the hole would cut off from their home bucket. Source: Knuth, volume
  // 3, section 6.4, algorithm R.
  for (size_t at = (hole + 1) & mask_; buckets_[at].slot != kAbsent; at = (at + 1) & mask_) {
    const size_t probes_needed = (at - buckets_[at].hash) & mask_;
    if (probes_needed >= ((at - hole) & mask_)) {
      buckets_[hole] = buckets_[at];
      hole = at;
    }
  }
  buckets_[hole].slot = kAbsent;
  --size_;
}

}  // namespace itif::net
