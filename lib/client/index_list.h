// A set of doubly linked lists over slot numbers. A slot is in at most one list of the set, and is
// removed in O(1). Allocates only at construction.
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace itif::client {

class IndexLists {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  IndexLists(uint32_t num_lists, uint32_t num_slots) : heads_(num_lists), links_(num_slots) {}

  void push_back(uint32_t list, uint32_t slot) noexcept {
    Link& link = links_[slot];
    DCHECK(link.list == kNone);
    Head& head = heads_[list];
    link = {.list = list, .previous = head.last, .next = kNone};
    (head.last == kNone ? head.first : links_[head.last].next) = slot;
    head.last = slot;
  }

  // Does nothing if the slot is in no list.
  void remove(uint32_t slot) noexcept {
    Link& link = links_[slot];
    if (link.list == kNone) return;
    Head& head = heads_[link.list];
    (link.previous == kNone ? head.first : links_[link.previous].next) = link.next;
    (link.next == kNone ? head.last : links_[link.next].previous) = link.previous;
    link = Link{};
  }

  uint32_t front(uint32_t list) const noexcept { return heads_[list].first; }
  bool empty(uint32_t list) const noexcept { return heads_[list].first == kNone; }
  // Returns the list that holds the slot, or kNone.
  uint32_t list_of(uint32_t slot) const noexcept { return links_[slot].list; }

 private:
  struct Head {
    uint32_t first = kNone;
    uint32_t last = kNone;
  };
  struct Link {
    uint32_t list = kNone;
    uint32_t previous = kNone;
    uint32_t next = kNone;
  };
  std::vector<Head> heads_;
  std::vector<Link> links_;
};

}  // namespace itif::client
