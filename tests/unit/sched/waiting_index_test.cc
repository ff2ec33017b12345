// The index of waiting requests against a plain list, and the work that a choice costs.
#include "sched/waiting_index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <string_view>
#include <tuple>

#include "base/random.h"
#include "policy_fixture.h"
#include "sched/indexed_order.h"
#include "sched/policy_spec.h"

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

std::unique_ptr<IndexedOrder> make_order(const PolicyOptions& options) {
  const std::string_view name = options.spec.name;
  if (name == "sjf") return make_sjf_order(options);
  if (name == "edf") return make_edf_order(options);
  return name == "das" ? make_das_order(options) : make_slotted_das_order(options);
}

class OrderWork : public testing::TestWithParam<std::string_view> {
 protected:
  static constexpr uint32_t kTenants = 8;
  static constexpr uint32_t kSelections = 4;
  static constexpr uint64_t kMs = 1'000'000;

  // Returns the number of nodes of the index that some selections visit, per request chosen or
  // refused. A full batch ends at 22 ms.
  static double visits_per_request(uint32_t num_waiting) {
    const PolicyOptions options{.limits = {.max_tokens = 2048, .max_requests = 256},
                                .queue = {.max_requests = 2 * num_waiting,
                                          .max_tenant_requests = num_waiting,
                                          .max_slots = kTenants},
                                .spec = parse_policy_spec(GetParam()).value()};
    const LinearCost cost(1.0 * kMs, 0.01 * kMs);
    GroupQueue queue(options.queue);
    const auto order = make_order(options);
    BatchLimits limits = options.limits;
    if (order->fills_rows()) limits.rows = {.number = 8, .tokens = 256};
    Random random(17);
    std::deque<request::Request> all(num_waiting);
    for (uint32_t i = 0; i < num_waiting; ++i) {
      request::Request& r = all[i];
      r.slot = static_cast<uint32_t>(random.below(kTenants));
      r.num_tokens = 16 + static_cast<uint32_t>(random.below(3));
      // 125 can never be met, and 125 not by a full batch. The others arrive in the order of their
      // deadlines, which degrades a tree without balance.
      const uint32_t kind = i % (num_waiting / 125);
      r.deadline_ns = kind == 3 ? kMs : kind == 4 ? 10 * kMs : 1'000 * kMs + i;
      EXPECT_TRUE(queue.push(&r));
      order->pushed(queue, r);
    }
    Choice choice;
    choice.reserve(options);
    uint64_t num_requests = 0;
    const uint64_t before = order->num_visits();
    for (uint32_t i = 0; i < kSelections; ++i) {
      choice.clear();
      order->select(queue, {.costs = {cost, cost}}, limits, choice);
      EXPECT_GT(choice.batch.size(), 90u);
      num_requests += choice.batch.size() + choice.refused.size();
    }
    return static_cast<double>(order->num_visits() - before) / static_cast<double>(num_requests);
  }
};

// The number of nodes that a choice visits grows with the chosen and refused requests and with the
// logarithm of the waiting ones: with 100,000 waiting a request costs at most twice as much as with
// 1,000.
TEST_P(OrderWork, IsNearLinearInTheRequestsChosen) {
  const double few = visits_per_request(1'000), many = visits_per_request(100'000);
  fmt::print("{}: {:.0f} and {:.0f} nodes per request\n", GetParam(), few, many);
  EXPECT_LE(few, 8 * std::log2(1'000));
  EXPECT_LE(many, 8 * std::log2(100'000));
  EXPECT_LE(many, 2 * few);
}

INSTANTIATE_TEST_SUITE_P(All, OrderWork,
                         testing::Values("sjf", "edf", "das", "das:fair", "slotted_das"));

}  // namespace
}  // namespace itif::sched
