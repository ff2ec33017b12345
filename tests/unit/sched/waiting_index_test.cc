// The index of waiting requests against a plain list, and the work that a choice costs.
#include "sched/waiting_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <tuple>

#include "base/random.h"
#include "sched/das_rows.h"

namespace itif::sched {
namespace {

uint64_t deadline_of(const request::Request& r) {
  return r.deadline_ns ? r.deadline_ns : std::numeric_limits<uint64_t>::max();
}

// Requests whose complete_ns is their number of arrival.
class WaitingIndexTest : public testing::Test {
 protected:
  static constexpr uint32_t kTrees = 3;

  request::Request& insert(uint32_t tree) {
    request::Request& r = all_.emplace_back();
    r.complete_ns = all_.size();
    r.num_tokens = 1 + static_cast<uint32_t>(random_.below(20));
    r.deadline_ns = random_.below(5) == 0 ? 0 : 1 + random_.below(30);
    r.slot = tree;
    index_.insert(r, tree);
    attached_.push_back(&r);
    return r;
  }
  // The first of a tree's requests by `key`, of at most max_tokens.
  template <class Key>
  request::Request* first(uint32_t tree, uint32_t max_tokens, const Key& key) const {
    request::Request* best = nullptr;
    for (request::Request* r : attached_)
      if (r->slot == tree && r->num_tokens <= max_tokens && (!best || key(*r) < key(*best)))
        best = r;
    return best;
  }
  void check() const {
    uint64_t num_tokens = 0;
    for (const request::Request* r : attached_) num_tokens += r->num_tokens;
    ASSERT_EQ(index_.num_requests(), attached_.size());
    ASSERT_EQ(index_.num_tokens(), num_tokens);
    for (uint32_t tree = 0; tree < kTrees; ++tree) {
      request::Request* shortest = first(tree, WaitingIndex::kAnyLength, [](const auto& r) {
        return std::tuple(r.num_tokens, deadline_of(r), r.complete_ns);
      });
      ASSERT_EQ(index_.shortest(tree), shortest);
      ASSERT_EQ(std::ranges::count(index_.active_trees(), tree), shortest ? 1 : 0);
      for (const uint32_t max_tokens : {0u, 3u, 9u, 19u, 20u, WaitingIndex::kAnyLength}) {
        ASSERT_EQ(index_.earliest(max_tokens, tree), first(tree, max_tokens, [](const auto& r) {
                    return std::tuple(deadline_of(r), r.complete_ns);
                  }));
      }
    }
  }
  request::Request* random_attached() {
    return attached_.empty() ? nullptr : attached_[random_.below(attached_.size())];
  }

  Random random_{21};
  WaitingIndex index_{200, kTrees};
  std::deque<request::Request> all_;
  std::vector<request::Request*> attached_, detached_;
};

TEST_F(WaitingIndexTest, AgreesWithAListUnderRandomChanges) {
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t what = random_.below(10);
    request::Request* r = random_attached();
    if (what < 5 && attached_.size() + detached_.size() < 200) {
      insert(static_cast<uint32_t>(random_.below(kTrees)));
    } else if (what < 7 && r != nullptr) {
      index_.erase(*r);
      std::erase(attached_, r);
    } else if (what == 7 && r != nullptr) {
      index_.detach(*r);
      EXPECT_FALSE(index_.is_attached(*r));
      std::erase(attached_, r);
      detached_.push_back(r);
    } else if (what == 8 && !detached_.empty()) {  // back to its place
      r = detached_.back();
      detached_.pop_back();
      index_.attach(*r);
      attached_.push_back(r);
    } else if (!detached_.empty()) {
      index_.erase(*detached_.back());
      detached_.pop_back();
    }
    check();
  }
}

// Chooses as das does, and counts the nodes of the index that the last choice visited.
class CountedDas final : public DasRows {
 public:
  using DasRows::DasRows;
  uint64_t num_visits = 0;

 protected:
  void fill(IndexFill& fill) noexcept override {
    const uint64_t before = fill.index().num_visits();
    fill_rows(fill);
    fill.finish([](const request::Request&) { return true; });
    num_visits = fill.index().num_visits() - before;
  }
};

// The number of nodes that a choice visits grows with the chosen requests and with the logarithm of
// the waiting ones: with 100,000 waiting a request costs at most twice as much as with 1,000.
TEST(DasWork, IsNearLinearInTheRequestsChosen) {
  double visits_per_request[2] = {};
  for (const bool many : {false, true}) {
    const uint32_t num_waiting = many ? 100'000 : 1'000;
    PolicyOptions options{.limits = {.max_tokens = 2048, .max_requests = 256},
                          .queue = {.max_requests = 2 * num_waiting + 1,
                                    .max_tenant_requests = num_waiting,
                                    .max_slots = 1}};
    GroupQueue queue(options.queue);
    CountedDas das(options);
    Random random(17);
    uint64_t deadline_ns = 0;
    std::deque<request::Request> all(num_waiting);
    for (request::Request& r : all) {
      r.num_tokens = 16 + static_cast<uint32_t>(random.below(3));
      r.deadline_ns = ++deadline_ns;  // arrivals in order, which degrade a tree without balance
      ASSERT_TRUE(queue.push(&r));
      das.pushed(queue, r);
    }
    Choice choice;
    choice.reserve(options);
    uint64_t num_visits = 0, num_chosen = 0;
    for (int i = 0; i < 4; ++i) {
      choice.clear();
      das.select(queue, {}, options.limits, choice);
      EXPECT_GT(choice.batch.size(), 110u);
      num_chosen += choice.batch.size();
      num_visits += das.num_visits;
    }
    visits_per_request[many] = static_cast<double>(num_visits) / static_cast<double>(num_chosen);
    EXPECT_LE(visits_per_request[many], 12 * std::log2(num_waiting));
  }
  EXPECT_LE(visits_per_request[1], 2 * visits_per_request[0]);
}

}  // namespace
}  // namespace itif::sched
