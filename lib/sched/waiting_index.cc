#include "sched/waiting_index.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace itif::sched {
namespace {

// SplitMix64's mixing function (Steele, Lea and Flood, OOPSLA 2014).
uint64_t mixed(uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

WaitingIndex::WaitingIndex(uint32_t max_requests, uint32_t num_trees)
    : nodes_(size_t{max_requests} + 1), roots_(num_trees, kNone) {
  free_.reserve(max_requests);
  for (uint32_t node = max_requests; node > 0; --node) free_.push_back(node);
  active_.reserve(num_trees);
}

void WaitingIndex::insert(request::Request& request, uint32_t tree) noexcept {
  CHECK(!free_.empty());
  const uint32_t node = free_.back();
  free_.pop_back();
  request.waiting_node = node;
  nodes_[node] = {.request = &request,
                  .deadline_ns = request.deadline_ns != 0 ? request.deadline_ns
                                                          : std::numeric_limits<uint64_t>::max(),
                  .arrival = arrivals_,
                  .priority = mixed(arrivals_),
                  .num_tokens = request.num_tokens,
                  .tree = tree};
  ++arrivals_;
  attach(request);
}

void WaitingIndex::erase(const request::Request& request) noexcept {
  const uint32_t node = request.waiting_node;
  DCHECK(nodes_[node].request == &request);
  if (nodes_[node].attached) detach(request);
  nodes_[node].request = nullptr;
  free_.push_back(node);
}

void WaitingIndex::attach(const request::Request& request) noexcept {
  Node& node = nodes_[request.waiting_node];
  DCHECK(!node.attached);
  node.attached = true;
  node.left = node.right = kNone;
  node.earliest = request.waiting_node;
  if (roots_[node.tree] == kNone) active_.push_back(node.tree);
  roots_[node.tree] = add(roots_[node.tree], request.waiting_node);
  ++num_requests_;
  num_tokens_ += node.num_tokens;
}

void WaitingIndex::detach(const request::Request& request) noexcept {
  Node& node = nodes_[request.waiting_node];
  DCHECK(node.attached);
  node.attached = false;
  roots_[node.tree] = remove(roots_[node.tree], request.waiting_node);
  if (roots_[node.tree] == kNone)
    active_.erase(std::find(active_.begin(), active_.end(), node.tree));
  --num_requests_;
  num_tokens_ -= node.num_tokens;
}

request::Request* WaitingIndex::shortest(uint32_t tree) const noexcept {
  uint32_t node = roots_[tree];
  while (nodes_[node].left != kNone) {
    node = nodes_[node].left;
    ++num_visits_;
  }
  return nodes_[node].request;
}

request::Request* WaitingIndex::earliest(uint32_t max_tokens, uint32_t tree) const noexcept {
  uint32_t best = kNone;
  for (uint32_t node = roots_[tree]; node != kNone; ++num_visits_) {
    if (nodes_[node].num_tokens > max_tokens) {
      node = nodes_[node].left;
      continue;
    }
    if (time_of(node) < time_of(best)) best = node;
    const uint32_t shorter = nodes_[nodes_[node].left].earliest;
    if (time_of(shorter) < time_of(best)) best = shorter;
    node = nodes_[node].right;
  }
  return nodes_[best].request;
}

// Recomputes the earliest deadline of a node's subtree from its children.
void WaitingIndex::update(uint32_t node) noexcept {
  ++num_visits_;
  Node& parent = nodes_[node];
  parent.earliest = node;
  for (const uint32_t child : {parent.left, parent.right})
    if (time_of(nodes_[child].earliest) < time_of(parent.earliest))
      parent.earliest = nodes_[child].earliest;
}

uint32_t WaitingIndex::add(uint32_t root, uint32_t node) noexcept {
  if (root == kNone) return node;
  if (nodes_[node].priority > nodes_[root].priority) {
    std::tie(nodes_[node].left, nodes_[node].right) = split(root, node);
    update(node);
    return node;
  }
  uint32_t& child = before(node, root) ? nodes_[root].left : nodes_[root].right;
  child = add(child, node);
  update(root);
  return root;
}

uint32_t WaitingIndex::remove(uint32_t root, uint32_t node) noexcept {
  if (root == node) return merge(nodes_[node].left, nodes_[node].right);
  uint32_t& child = before(node, root) ? nodes_[root].left : nodes_[root].right;
  child = remove(child, node);
  update(root);
  return root;
}

uint32_t WaitingIndex::merge(uint32_t left, uint32_t right) noexcept {
  if (left == kNone || right == kNone) return left != kNone ? left : right;
  const uint32_t root = nodes_[left].priority > nodes_[right].priority ? left : right;
  if (root == left)
    nodes_[left].right = merge(nodes_[left].right, right);
  else
    nodes_[right].left = merge(left, nodes_[right].left);
  update(root);
  return root;
}

// Splits a tree into the nodes before `node` and those after it.
std::pair<uint32_t, uint32_t> WaitingIndex::split(uint32_t root, uint32_t node) noexcept {
  if (root == kNone) return {kNone, kNone};
  uint32_t other = kNone;
  if (before(root, node)) {
    std::tie(nodes_[root].right, other) = split(nodes_[root].right, node);
    update(root);
    return {root, other};
  }
  std::tie(other, nodes_[root].left) = split(nodes_[root].left, node);
  update(root);
  return {other, root};
}

}  // namespace itif::sched
