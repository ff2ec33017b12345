#include "model/equal_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/random.h"

namespace itif::model {
namespace {

constexpr size_t kGemms = 4;

// Per GEMM a weight and a bias, then a table.
std::vector<WeightKind> kinds() {
  std::vector<WeightKind> kinds;
  for (size_t i = 0; i < kGemms; ++i) {
    kinds.push_back({.name = "weight", .storage = Storage::kMatrix, .gemm = {.n = 8, .k = 8}});
    kinds.push_back({.name = "bias", .storage = Storage::kVector});
  }
  kinds.push_back({.name = "table", .storage = Storage::kTable});
  return kinds;
}

KindContent content(uint8_t value) {
  KindContent content;
  content.whole.tag.fill(std::byte{value});
  return content;
}

// Slots whose GEMMs have the values that a test names, and biases of zero.
class EqualSlots {
 public:
  explicit EqualSlots(uint32_t max_slots) : contents_(max_slots), weights_(kinds(), max_slots) {}

  void add(uint32_t slot, const std::vector<uint8_t>& weights, uint8_t bias = 0) {
    contents_[slot].clear();
    for (const uint8_t weight : weights) {
      contents_[slot].push_back(content(weight));
      contents_[slot].push_back(content(bias));
    }
    contents_[slot].push_back(content(static_cast<uint8_t>(slot)));  // its own table
    weights_.add(slot, contents_);
    added_.insert(slot);
  }
  void add_unknown(uint32_t slot) {
    weights_.add(slot, contents_);
    added_.insert(slot);
  }
  void remove(uint32_t slot) {
    contents_[slot].clear();
    weights_.remove(slot);
    added_.erase(slot);
  }
  bool equal(size_t gemm, uint32_t a, uint32_t b) const {
    const uint32_t* numbers = weights_.numbers()[2 * gemm];
    return numbers[a] == numbers[b];
  }
  std::vector<uint32_t> order() const {
    std::vector<uint32_t> slots(added_.begin(), added_.end());
    std::ranges::sort(slots, {}, [&](uint32_t slot) { return weights_.order_of(slot); });
    return slots;
  }
  const EqualWeights& weights() const { return weights_; }

 private:
  std::vector<WeightContents> contents_;
  EqualWeights weights_;
  std::set<uint32_t> added_;
};

using Slots = std::vector<uint32_t>;

TEST(EqualWeights, NumbersEachGemmsWeight) {
  EqualSlots slots(4);
  slots.add(0, {1, 1, 1, 1});
  slots.add(1, {1, 2, 1, 3});
  for (size_t gemm = 0; gemm < kGemms; ++gemm)
    EXPECT_EQ(slots.equal(gemm, 0, 1), gemm % 2 == 0) << gemm;
  ASSERT_EQ(slots.weights().numbers().size(), 2 * kGemms + 1);
  for (size_t i = 0; i < kGemms; ++i)
    EXPECT_EQ(slots.weights().numbers()[2 * i + 1], nullptr) << "a bias";
  EXPECT_EQ(slots.weights().numbers().back(), nullptr) << "a table";
}

// A GEMM adds its bias, so that equal matrices alone do not make it equal.
TEST(EqualWeights, ABiasIsPartOfItsGemm) {
  EqualSlots slots(2);
  slots.add(0, {1, 1, 1, 1}, 0);
  slots.add(1, {1, 1, 1, 1}, 7);
  EXPECT_FALSE(slots.equal(0, 0, 1));
}

TEST(EqualWeights, UnknownContentsEqualNoOthers) {
  EqualSlots slots(3);
  slots.add_unknown(0);
  slots.add_unknown(1);
  slots.add(2, {0, 0, 0, 0});
  for (const auto& [a, b] : {std::pair{0u, 1u}, {0u, 2u}, {1u, 2u}})
    EXPECT_FALSE(slots.equal(0, a, b)) << a << ' ' << b;
}

TEST(EqualWeights, SlotsWithNothingInCommonAscend) {
  EqualSlots slots(5);
  for (const uint32_t slot : {3, 0, 4, 2, 1})
    slots.add(slot, std::vector<uint8_t>(kGemms, static_cast<uint8_t>(slot + 1)));
  EXPECT_EQ(slots.order(), (Slots{0, 1, 2, 3, 4}));
}

// Two families of fine-tunes, admitted in turn.
TEST(EqualWeights, FamiliesAreNeighbours) {
  EqualSlots slots(6);
  for (uint32_t slot = 0; slot < 6; ++slot) {
    const auto base = static_cast<uint8_t>(1 + slot % 2), own = static_cast<uint8_t>(10 + slot);
    slots.add(slot, {base, base, own, own});
  }
  EXPECT_EQ(slots.order(), (Slots{0, 2, 4, 1, 3, 5}));
  slots.remove(2);
  slots.remove(1);
  EXPECT_EQ(slots.order(), (Slots{0, 4, 3, 5}));
  slots.add(1, {1, 1, 1, 1});
  EXPECT_EQ(slots.order(), (Slots{0, 1, 4, 3, 5}));
}

// Upper layers count as much as lower ones.
TEST(EqualWeights, TheMostCommonWeightsDecide) {
  EqualSlots slots(4);
  slots.add(0, {1, 5, 5, 5});
  slots.add(1, {2, 6, 6, 6});
  slots.add(2, {1, 6, 6, 6});
  slots.add(3, {2, 5, 5, 5});
  EXPECT_EQ(slots.order(), (Slots{3, 0, 2, 1}));
}

TEST(EqualWeights, RandomChangesKeepNumbersAndOrderTrue) {
  constexpr uint32_t kSlots = 12;
  Random random(5);
  EqualSlots slots(kSlots);
  std::map<uint32_t, std::vector<uint8_t>> added;
  for (int turn = 0; turn < 2000; ++turn) {
    const auto slot = static_cast<uint32_t>(random.below(kSlots));
    if (added.contains(slot)) {
      slots.remove(slot);
      added.erase(slot);
    } else {
      std::vector<uint8_t> weights(kGemms);
      for (uint8_t& weight : weights) weight = static_cast<uint8_t>(1 + random.below(3));
      slots.add(slot, weights);
      added[slot] = weights;
    }
    std::set<uint32_t> places;
    for (const auto& [a, of_a] : added) {
      places.insert(slots.weights().order_of(a));
      for (const auto& [b, of_b] : added)
        for (size_t gemm = 0; gemm < kGemms; ++gemm)
          ASSERT_EQ(slots.equal(gemm, a, b), of_a[gemm] == of_b[gemm]) << turn;
    }
    ASSERT_EQ(places.size(), added.size()) << "places are distinct";
    if (!added.empty()) {
      ASSERT_EQ(*places.rbegin(), added.size() - 1);
    }
  }
}

}  // namespace
}  // namespace itif::model
