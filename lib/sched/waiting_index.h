// Finds waiting requests for policies: the shortest, and the earliest deadline among those up to a
// length. Every arrival and departure updates the index; nothing is sorted for a choice.
//
// Each request belongs to a tree, whose number its policy chooses: one for all, or one for each
// weight. A tree is a treap ordered by (length, deadline, arrival). Each node knows the earliest
// deadline of its subtree, so that "the earliest deadline among requests of at most x tokens" is a
// walk from the root. All operations take O(log n) expected steps. Ties of the deadline go to the
// earlier arrival.
//
// Source: Seidel and Aragon, "Randomized search trees", Algorithmica 1996. Priorities are a hash of
// the arrival number, so that equal arrivals give equal trees.
// Owned by the executor's thread. Allocates nothing after construction. Requests hold their node
// (Request::waiting_node).
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "request/request.h"

namespace itif::sched {

class WaitingIndex {
 public:
  static constexpr uint32_t kAnyLength = std::numeric_limits<uint32_t>::max();

  explicit WaitingIndex(uint32_t max_requests, uint32_t num_trees = 1);

  // REQUIRES: fewer than max_requests are held.
  void insert(request::Request& request, uint32_t tree = 0) noexcept;
  // Forgets the request, which may be detached.
  void erase(const request::Request& request) noexcept;
  // Takes the request out of the orders. It keeps its node and its place: attach() restores both.
  void detach(const request::Request& request) noexcept;
  void attach(const request::Request& request) noexcept;

  bool is_attached(const request::Request& request) const noexcept {
    return nodes_[request.waiting_node].attached;
  }
  // Returns the shortest request of a tree, the earlier deadline of equally short ones. nullptr:
  // the tree is empty.
  request::Request* shortest(uint32_t tree = 0) const noexcept;
  // Returns the request with the earliest deadline among those of a tree with at most max_tokens;
  // nullptr: there is none.
  request::Request* earliest(uint32_t max_tokens, uint32_t tree = 0) const noexcept;
  // Returns true if `a` has the earlier deadline, or the same one and arrived earlier.
  bool is_earlier(const request::Request& a, const request::Request& b) const noexcept {
    return time_of(a.waiting_node) < time_of(b.waiting_node);
  }

  // Trees with attached requests, in no particular order.
  const std::vector<uint32_t>& active_trees() const noexcept { return active_; }
  // Attached requests, and their tokens.
  uint32_t num_requests() const noexcept { return num_requests_; }
  uint64_t num_tokens() const noexcept { return num_tokens_; }
  // Number of nodes visited so far: the work done, for tests.
  uint64_t num_visits() const noexcept { return num_visits_; }

 private:
  using Time = std::pair<uint64_t, uint64_t>;  // deadline, arrival number
  static constexpr uint32_t kNone = 0;         // nodes_[0] is a sentinel
  struct Node {
    request::Request* request = nullptr;
    uint64_t deadline_ns = std::numeric_limits<uint64_t>::max();  // max: it has none
    uint64_t arrival = std::numeric_limits<uint64_t>::max();
    uint64_t priority = 0;
    uint32_t num_tokens = 0;
    uint32_t tree = 0;
    uint32_t left = kNone;
    uint32_t right = kNone;
    uint32_t earliest = kNone;  // node of the subtree
    bool attached = false;
  };

  Time time_of(uint32_t node) const noexcept {
    return {nodes_[node].deadline_ns, nodes_[node].arrival};
  }
  bool before(uint32_t a, uint32_t b) const noexcept {
    if (nodes_[a].num_tokens != nodes_[b].num_tokens)
      return nodes_[a].num_tokens < nodes_[b].num_tokens;
    return time_of(a) < time_of(b);
  }
  void update(uint32_t node) noexcept;
  uint32_t add(uint32_t root, uint32_t node) noexcept;
  uint32_t remove(uint32_t root, uint32_t node) noexcept;
  uint32_t merge(uint32_t left, uint32_t right) noexcept;
  std::pair<uint32_t, uint32_t> split(uint32_t root, uint32_t node) noexcept;

  std::vector<Node> nodes_;      // [1 + max_requests]
  std::vector<uint32_t> free_;   // nodes
  std::vector<uint32_t> roots_;  // by tree
  std::vector<uint32_t> active_;
  uint64_t arrivals_ = 0;
  uint32_t num_requests_ = 0;
  uint64_t num_tokens_ = 0;
  mutable uint64_t num_visits_ = 0;
};

}  // namespace itif::sched
