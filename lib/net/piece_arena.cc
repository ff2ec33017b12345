#include "net/piece_arena.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace itif::net {

// A block's number is that of its first minimal block ("unit"). An order-k block spans 2^k units
// and starts at a multiple of 2^k, so flipping bit k gives its buddy's number.
PieceArena::PieceArena(uint32_t num_pieces)
    : pieces_(std::bit_ceil(std::max(num_pieces, kMinBlock))),
      mbufs_(pieces_.size()),
      arrived_(pieces_.size() / 64),
      links_(pieces_.size() / kMinBlock),
      free_order_(links_.size()),
      heads_(static_cast<size_t>(std::bit_width(links_.size())), kNone),
      free_pieces_(static_cast<uint32_t>(pieces_.size())) {
  push(static_cast<unsigned>(heads_.size()) - 1, 0);
}

unsigned PieceArena::order_for(uint32_t num_pieces) noexcept {
  const uint32_t units = (num_pieces + kMinBlock - 1) / kMinBlock;
  return static_cast<unsigned>(std::bit_width(std::bit_ceil(units)) - 1);
}

void PieceArena::push(unsigned order, uint32_t block) noexcept {
  links_[block] = {heads_[order], kNone};
  if (heads_[order] != kNone) links_[heads_[order]].previous = block;
  heads_[order] = block;
  free_order_[block] = static_cast<uint8_t>(order + 1);
}

void PieceArena::unlink(unsigned order, uint32_t block) noexcept {
  const Link link = links_[block];
  if (link.next != kNone) links_[link.next].previous = link.previous;
  if (link.previous != kNone)
    links_[link.previous].next = link.next;
  else
    heads_[order] = link.next;
  free_order_[block] = 0;
}

uint32_t PieceArena::allocate(uint32_t num_pieces) noexcept {
  if (num_pieces == 0 || num_pieces > capacity()) return kNone;
  const unsigned wanted = order_for(num_pieces);
  unsigned order = wanted;
  while (order < heads_.size() && heads_[order] == kNone) ++order;
  if (order == heads_.size()) return kNone;
  const uint32_t block = heads_[order];
  unlink(order, block);
  while (order > wanted) {
    --order;
    push(order, block + (1u << order));
  }
  free_pieces_ -= kMinBlock << wanted;
  const uint32_t first = block * kMinBlock;
  std::fill_n(arrived(first), (num_pieces + 63) / 64, 0);
  return first;
}

void PieceArena::release(uint32_t first, uint32_t num_pieces) noexcept {
  DCHECK(first % kMinBlock == 0 && first < capacity());
  unsigned order = order_for(num_pieces);
  uint32_t block = first / kMinBlock;
  DCHECK(free_order_[block] == 0);
  free_pieces_ += kMinBlock << order;
  for (; order + 1 < heads_.size(); ++order) {
    const uint32_t buddy = block ^ (1u << order);
    if (free_order_[buddy] != order + 1) break;
    unlink(order, buddy);
    block = std::min(block, buddy);
  }
  push(order, block);
}

}  // namespace itif::net
