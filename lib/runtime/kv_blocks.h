// The blocks of a K/V cache: who holds which, how many are left.
//
// A block keeps K and V of kBlockTokens tokens of all layers. Beams share blocks: a block has as many
// holders as tables name it and is free when the last lets go. Whoever starts a sequence reserves its
// worst case before it takes the first block, so that a sequence that runs never finds the cache full.
//
// Pure accounting of block numbers; the memory is the decoder's. One owner thread; allocates when made.
#pragma once

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

  // False, and nothing reserved: there are not so many left.
  bool reserve(uint32_t count) noexcept {
    if (count > num_blocks_ - num_reserved_) return false;
    num_reserved_ += count;
    return true;
  }
  // REQUIRES: of what was reserved; the blocks that it stood for are free.
  void unreserve(uint32_t count) noexcept {
    CHECK(count <= num_reserved_);
    num_reserved_ -= count;
    CHECK(num_used() <= num_reserved_);
  }

  // A free block, with one holder. REQUIRES: reserved.
  uint32_t take() noexcept {
    CHECK(num_used() < num_reserved_);
    const uint32_t block = free_.back();
    free_.pop_back();
    holders_[block] = 1;
    return block;
  }
  void share(uint32_t block) noexcept {
    CHECK(holders_[block] > 0);
    ++holders_[block];
  }
  void let_go(uint32_t block) noexcept {
    CHECK(holders_[block] > 0);
    if (--holders_[block] == 0) free_.push_back(block);
  }
  // Written by its one holder alone; anybody else's writing needs a copy.
  bool is_shared(uint32_t block) const noexcept { return holders_[block] > 1; }

  uint32_t num_blocks() const noexcept { return num_blocks_; }
  uint32_t num_used() const noexcept { return num_blocks_ - static_cast<uint32_t>(free_.size()); }
  uint32_t num_reserved() const noexcept { return num_reserved_; }

 private:
  std::vector<uint32_t> holders_;
  std::vector<uint32_t> free_;
  const uint32_t num_blocks_;
  uint32_t num_reserved_ = 0;
};

}  // namespace itif::runtime
