// Holds the piece tables of requests with many pieces: contiguous blocks of a fixed array, from a
// binary buddy allocator. request::Request::pieces is thus one span for any order of arrival.
// Bounded; allocates only at construction. One owner thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/huge_vector.h"
#include "request/request.h"

struct rte_mbuf;

namespace itif::net {

class PieceArena {
 public:
  static constexpr uint32_t kMinBlock = 64;  // in pieces; one word of the arrival bitmap
  static constexpr uint32_t kNone = UINT32_MAX;

  // Rounds num_pieces up to a power of two ≥ kMinBlock.
  explicit PieceArena(uint32_t num_pieces);

  // Returns the first slot of a block of at least num_pieces, with its bitmap cleared; kNone if no
  // block is free.
  uint32_t allocate(uint32_t num_pieces) noexcept;
  // REQUIRES: `first` came from allocate(num_pieces).
  void release(uint32_t first, uint32_t num_pieces) noexcept;

  request::Piece* pieces(uint32_t first) noexcept { return &pieces_[first]; }
  rte_mbuf** mbufs(uint32_t first) noexcept { return &mbufs_[first]; }
  uint64_t* arrived(uint32_t first) noexcept { return &arrived_[first / 64]; }
  // Returns the size of a block for num_pieces.
  static uint32_t block_pieces(uint32_t num_pieces) noexcept {
    return kMinBlock << order_for(num_pieces);
  }
  uint32_t capacity() const noexcept { return static_cast<uint32_t>(pieces_.size()); }
  uint32_t free_pieces() const noexcept { return free_pieces_; }

 private:
  struct Link {
    uint32_t next = kNone;
    uint32_t previous = kNone;
  };
  static unsigned order_for(uint32_t num_pieces) noexcept;
  void push(unsigned order, uint32_t block) noexcept;
  void unlink(unsigned order, uint32_t block) noexcept;

  HugeVector<request::Piece> pieces_;
  HugeVector<rte_mbuf*> mbufs_;
  HugeVector<uint64_t> arrived_;
  std::vector<Link> links_;          // per minimal block
  std::vector<uint8_t> free_order_;  // per minimal block: order + 1 if a free block starts there
  std::vector<uint32_t> heads_;      // per order
  uint32_t free_pieces_ = 0;
};

}  // namespace itif::net
