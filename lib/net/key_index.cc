#include "net/key_index.h"

#include <bit>

#include "base/check.h"

namespace itif::net {

KeyIndex::KeyIndex(uint32_t capacity, uint64_t seed)
    : buckets_(std::bit_ceil(size_t{capacity} * 2 + 1)),
      mask_(buckets_.size() - 1),
      seed_(seed),
      capacity_(capacity) {}

uint32_t KeyIndex::find(const MessageKey& key) const noexcept {
  for (size_t at = home(key);; at = (at + 1) & mask_) {
    const Bucket& bucket = buckets_[at];
    if (bucket.slot == kAbsent || bucket.key == key) return bucket.slot;
  }
}

void KeyIndex::insert(const MessageKey& key, uint32_t slot) noexcept {
  DCHECK(size_ < capacity_ && slot != kAbsent);
  size_t at = home(key);
  while (buckets_[at].slot != kAbsent) at = (at + 1) & mask_;
  buckets_[at] = {key, slot};
  ++size_;
}

bool KeyIndex::erase(const MessageKey& key) noexcept {
  size_t hole = home(key);
  while (buckets_[hole].slot != kAbsent && !(buckets_[hole].key == key)) hole = (hole + 1) & mask_;
  if (buckets_[hole].slot == kAbsent) return false;
  // Moves back keys that the hole would cut off from their home bucket. Source: Knuth, volume 3,
  // section 6.4, algorithm R.
  for (size_t at = (hole + 1) & mask_; buckets_[at].slot != kAbsent; at = (at + 1) & mask_) {
    const size_t probes_needed = (at - home(buckets_[at].key)) & mask_;
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
