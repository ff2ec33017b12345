// Theorem 5.1 of TCB: over all batches, DAS reaches at least ηq/(ηq + 1) of the utility of the best
// schedule, which knows all arrivals. Brute force finds that schedule on small instances.
#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"
#include "policy_fixture.h"

namespace itif::sched {
namespace {

constexpr uint32_t kMaxCells = 6;  // rows of all time slots

struct Task {
  uint32_t length = 1;
  uint32_t first = 0, last = 0;  // time slots in which it may be scheduled
  double utility() const { return 1.0 / length; }
};

struct Instance {
  uint32_t num_rows = 1, num_slots = 2, row_tokens = 10;
  std::vector<Task> tasks;
};

Instance random_instance(Random& random) {
  Instance in;
  in.num_rows = 1 + static_cast<uint32_t>(random.below(2));
  in.num_slots = 2 + static_cast<uint32_t>(random.below(2));
  in.row_tokens = 6 + static_cast<uint32_t>(random.below(10));
  // Short requests make rows of several, where their order matters.
  const uint32_t longest = in.row_tokens / (1 + static_cast<uint32_t>(random.below(3)));
  for (uint64_t n = 3 + random.below(7); n > 0; --n) {
    const auto first = static_cast<uint32_t>(random.below(in.num_slots));
    in.tasks.push_back({.length = 1 + static_cast<uint32_t>(random.below(longest)),
                        .first = first,
                        .last = first + static_cast<uint32_t>(random.below(in.num_slots - first))});
  }
  return in;
}

// The optimum of equations 9 to 13: tries every row of every time slot for every task.
class BruteForce {
 public:
  explicit BruteForce(const Instance& in) : in_(in) {
    std::ranges::sort(in_.tasks, {}, &Task::length);
    std::fill_n(room_, kMaxCells, in.row_tokens);
  }
  double optimum() {
    search(0, 0);
    return best_;
  }

 private:
  void search(size_t i, double utility) {
    best_ = std::max(best_, utility);
    double left = utility;
    for (size_t j = i; j < in_.tasks.size(); ++j) left += in_.tasks[j].utility();
    if (left <= best_) return;
    const Task& task = in_.tasks[i];
    for (uint32_t slot = task.first; slot <= task.last; ++slot) {
      for (uint32_t row = 0; row < in_.num_rows; ++row) {
        uint32_t& room = room_[slot * in_.num_rows + row];
        if (room < task.length) continue;
        room -= task.length;
        search(i + 1, utility + task.utility());
        room += task.length;
      }
    }
    search(i + 1, utility);
  }

  Instance in_;
  uint32_t room_[kMaxCells];
  double best_ = 0;
};

class DasTheoremTest : public PolicyFixture, public testing::WithParamInterface<double> {
 protected:
  // Returns the utility that the policy reaches. Fails if it breaks a constraint.
  double run(std::string_view name, const Instance& in) {
    make(name, {.limits = {.max_tokens = in.num_rows * in.row_tokens, .max_requests = 16}});
    requests.clear();
    double utility = 0;
    std::vector<request::Request*> chosen;
    for (uint32_t slot = 0; slot < in.num_slots; ++slot) {
      for (const Task& task : in.tasks)
        if (task.first == slot) push({.tokens = task.length, .deadline_ns = 10 * (task.last + 1)});
      const uint64_t now_ns = 10 * slot + 9;
      policy->choose({.now_ns = now_ns, .rows = {in.num_rows, in.row_tokens}}, choice);
      uint32_t room[kMaxCells];
      std::fill_n(room, in.num_rows, in.row_tokens);
      for (request::Request* r : choice.batch) {
        EXPECT_LE(r->num_tokens, room[r->row]);
        room[r->row] -= r->num_tokens;
        EXPECT_GT(r->deadline_ns, now_ns);
        EXPECT_EQ(std::ranges::count(chosen, r), 0);
        chosen.push_back(r);
        utility += 1.0 / r->num_tokens;
      }
    }
    return utility;
  }
};

TEST_P(DasTheoremTest, ReachesTheBoundOfTheOptimum) {
  const double eta = GetParam(), bound = eta * (1 - eta) / (eta * (1 - eta) + 1);
  constexpr int kInstances = 600;
  Random random(11);
  double least = 1, sum = 0;
  for (int i = 0; i < kInstances; ++i) {
    const Instance in = random_instance(random);
    const double share = run(fmt::format("das:eta={}", eta), in) / BruteForce(in).optimum();
    EXPECT_LE(share, 1 + 1e-9);
    EXPECT_GE(share, bound);
    least = std::min(least, share);
    sum += share;
  }
  const double mean = sum / kInstances;
  fmt::print("eta {}: least {:.3f}, mean {:.4f} of the optimum; the theorem promises {:.3f}\n", eta,
             least, mean, bound);
  // The bound is loose. These are the figures reached, rounded down.
  EXPECT_GE(least, 0.74);
  EXPECT_GE(mean, 0.993);
}

INSTANTIATE_TEST_SUITE_P(Eta, DasTheoremTest, testing::Values(0.1, 0.3, 0.5, 0.7, 0.8, 0.9));

}  // namespace
}  // namespace itif::sched
