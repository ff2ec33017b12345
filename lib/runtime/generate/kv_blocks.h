// Reference counts and reservations of the blocks of a K/V cache.
//
// A block keeps K and V of kBlockTokens tokens of all layers. Beams share blocks: a block has one
// holder per table that names it, and is free when the last holder releases it. A sequence's worst
// case is reserved before its first block is taken, so that a running sequence never finds the
// cache full.
//
// Only accounts for block numbers; the memory is the decoder's. One owner thread. Allocates only in
// the constructor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"

namespace itif::runtime {

class KvBlocks {
 public:
  explicit KvBlocks(uint32_t num_blocks) : holders_(num_blocks, 0), num_blocks_(num_blocks) {
    free_.reserve(num_blocks);
    for (uint32_t block = num_blocks; block-- > 0;) free_.push_back(block);
  }

  // Returns false and reserves nothing if fewer than `count` are left.
  bool reserve(uint32_t count) noexcept {
    if (count > num_blocks_ - num_reserved_) return false;
    num_reserved_ += count;
    max_reserved_ = std::max(max_reserved_, num_reserved_);
    return true;
  }
  // REQUIRES: `count` blocks are reserved, and the blocks taken under that reservation are free.
  void unreserve(uint32_t count) noexcept {
    CHECK(count <= num_reserved_);
    num_reserved_ -= count;
    CHECK(num_used() <= num_reserved_);
  }

  // Returns a free block, with one holder. REQUIRES: the block is reserved.
  uint32_t take() noexcept {
    CHECK(num_used() < num_reserved_);
    const uint32_t block = free_.back();
    free_.pop_back();
    holders_[block] = 1;
    max_used_ = std::max(max_used_, num_used());
    return block;
  }
  void share(uint32_t block) noexcept {
    CHECK(holders_[block] > 0);
    ++holders_[block];
  }
  void release(uint32_t block) noexcept {
    CHECK(holders_[block] > 0);
    if (--holders_[block] == 0) free_.push_back(block);
  }
  // A block with one holder may be written in place; a shared block must be copied first.
  bool is_shared(uint32_t block) const noexcept { return holders_[block] > 1; }

  uint32_t num_blocks() const noexcept { return num_blocks_; }
  uint32_t num_used() const noexcept { return num_blocks_ - static_cast<uint32_t>(free_.size()); }
  uint32_t num_reserved() const noexcept { return num_reserved_; }
  // Peaks since construction.
  uint32_t max_used() const noexcept { return max_used_; }
  uint32_t max_reserved() const noexcept { return max_reserved_; }

 private:
  std::vector<uint32_t> holders_;
  std::vector<uint32_t> free_;
  const uint32_t num_blocks_;
  uint32_t num_reserved_ = 0;
  uint32_t max_used_ = 0, max_reserved_ = 0;
};

}  // namespace itif::runtime
