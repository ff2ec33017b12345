// Stores of several groups that share equal weights by one pool.
#include "model/weight_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <list>
#include <thread>

#include "model/weight_store.h"
#include "support/plain_device.h"
#include "support/small_weights.h"

namespace itif::model {
namespace {

using testing::contents;
using testing::small_kinds;
using testing::write_checkpoint;

constexpr size_t kSlabs = 3;  // words, the matrix, both vectors

class PooledStores : public ::testing::Test {
 protected:
  std::unique_ptr<WeightStore> make_store(std::vector<WeightKind> kinds = small_kinds(3)) {
    return WeightStore::create(device_, std::move(kinds), 4, &pool_).value();
  }
  Checkpoint model(float first) { return write_checkpoint(files_.emplace_back(), 3, first); }
  WeightStore::Match match(WeightStore& store, const Checkpoint& checkpoint) {
    return store.match(store.kinds(), checkpoint, nullptr).value();
  }
  Result<uint32_t> try_add(WeightStore& store, const Checkpoint& checkpoint) {
    const auto match = this->match(store, checkpoint);
    return store.add(match, store.kinds(), checkpoint, nullptr);
  }
  uint32_t add(WeightStore& store, float first) { return try_add(store, model(first)).value(); }
  // Expects the weights of model(first).
  static void expect(const WeightStore& store, uint32_t slot, float first) {
    EXPECT_EQ(contents(store, 0, slot, 2), (std::vector<float>{first, first + 1}));
    EXPECT_EQ(contents(store, 1, slot, 2), (std::vector<float>{first + 6, first + 7}));
    EXPECT_EQ(contents(store, 2, slot, 2), (std::vector<float>{first + 8, first + 9}));
    EXPECT_EQ(contents(store, 3, slot, 2), (std::vector<float>{first + 16, first + 17}));
  }
  void wait_for_a_waiting_load() {
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
      const std::lock_guard lock(pool_.mutex());
      if (pool_.num_waiting() > 0) return;
    }
  }
  size_t slabs() const { return device_.state().live_slots; }

  mutable testing::PlainDevice device_;
  WeightPool pool_;
  std::list<testing::TempDirectory> files_;
  std::unique_ptr<WeightStore> a_ = make_store(), b_ = make_store();
};

TEST_F(PooledStores, EqualModelsAreStoredOnce) {
  const uint32_t a = add(*a_, 0);
  const Checkpoint equal = model(0);
  EXPECT_EQ(match(*b_, equal).new_bytes, 0u);
  add(*b_, 50);
  const uint32_t b = try_add(*b_, equal).value();
  EXPECT_EQ(slabs(), 2 * kSlabs);
  EXPECT_EQ(a_->used_bytes(), a_->slot_bytes());
  EXPECT_EQ(b_->used_bytes(), b_->slot_bytes()) << "of the other model";
  for (size_t kind = 0; kind < 4; ++kind) EXPECT_EQ(a_->slab(kind).at(a), b_->slab(kind).at(b));
  expect(*b_, b, 0);
}

TEST_F(PooledStores, StoresWithoutAPoolShareNothing) {
  const auto alone = WeightStore::create(device_, small_kinds(3), 4).value();
  add(*a_, 0);
  add(*alone, 0);
  EXPECT_EQ(slabs(), 2 * kSlabs);
}

// The weights then count for the store that is left.
TEST_F(PooledStores, TheLastStoreThatHoldsAWeightFreesIt) {
  for (const bool first_leaves : {true, false}) {
    const uint32_t a = add(*a_, 0), again = add(*a_, 0), b = add(*b_, 0);
    EXPECT_EQ(a, again);
    WeightStore& leaves = first_leaves ? *a_ : *b_;
    WeightStore& stays = first_leaves ? *b_ : *a_;
    const uint64_t bytes = device_.state().slab_bytes;
    EXPECT_EQ(bytes, a_->slot_bytes());
    leaves.release(first_leaves ? a : b);
    if (first_leaves) {
      EXPECT_EQ(leaves.used_bytes(), bytes) << "its other tenant stays";
      leaves.release(a);
    }
    EXPECT_EQ(leaves.used_bytes(), 0u);
    EXPECT_EQ(stays.used_bytes(), bytes);
    EXPECT_EQ(device_.state().slab_bytes, bytes);
    expect(stays, first_leaves ? b : a, 0);
    // It is found again, though the store that loaded it has it no more.
    const uint32_t back = add(leaves, 0);
    EXPECT_EQ(device_.state().slab_bytes, bytes);
    expect(leaves, back, 0);
    leaves.release(back);
    stays.release(first_leaves ? b : a);
    if (!first_leaves) stays.release(a);
    EXPECT_EQ(slabs(), 0u);
    EXPECT_EQ(stays.used_bytes(), 0u);
  }
}

TEST_F(PooledStores, WeightsOutliveTheStoreThatLoadedThem) {
  add(*a_, 0);
  add(*a_, 100);
  const uint32_t b = add(*b_, 0);
  a_.reset();
  EXPECT_EQ(slabs(), kSlabs);
  EXPECT_EQ(b_->used_bytes(), b_->slot_bytes());
  expect(*b_, b, 0);
  a_ = make_store();
  expect(*a_, add(*a_, 0), 0);
  EXPECT_EQ(slabs(), kSlabs);
  b_.reset();
  EXPECT_EQ(a_->used_bytes(), a_->slot_bytes());
  a_.reset();
  EXPECT_EQ(slabs(), 0u);
}

// A tenant may be deleted between the comparison with it and the load that shares its weights.
TEST_F(PooledStores, AMatchKeepsTheWeightsThatItFound) {
  const uint32_t a = add(*a_, 0);
  const Checkpoint equal = model(0);
  const auto match = this->match(*b_, equal);
  a_->release(a);
  EXPECT_EQ(a_->used_bytes(), 0u);
  a_.reset();
  EXPECT_EQ(slabs(), kSlabs);
  const uint32_t b = b_->add(match, b_->kinds(), equal, nullptr).value();
  EXPECT_EQ(b_->used_bytes(), b_->slot_bytes());
  expect(*b_, b, 0);
  // Others find it, too.
  a_ = make_store();
}

TEST_F(PooledStores, WeightsOfALeftMatchAreFoundAgain) {
  const uint32_t a = add(*a_, 0);
  const Checkpoint equal = model(0);
  {
    const auto match = this->match(*b_, equal);
    a_->release(a);
    ASSERT_TRUE(b_->add(match, b_->kinds(), equal, nullptr));
  }
  expect(*a_, add(*a_, 0), 0);
  EXPECT_EQ(slabs(), kSlabs);
}

TEST_F(PooledStores, AMatchThatIsNotUsedFreesWhatItKept) {
  const uint32_t a = add(*a_, 0);
  {
    const auto match = this->match(*b_, model(0));
    a_->release(a);
    EXPECT_EQ(slabs(), kSlabs);
  }
  EXPECT_EQ(slabs(), 0u);
}

// Backbones with another vocabulary are in other groups. Their layers may be equal.
TEST_F(PooledStores, DifferentBackbonesShareWhatIsEqual) {
  const auto larger = make_store(small_kinds(4));
  add(*a_, 0);
  const Checkpoint checkpoint = write_checkpoint(files_.emplace_back(), 4, -2);
  const uint32_t slot = try_add(*larger, checkpoint).value();
  EXPECT_EQ(slabs(), kSlabs + 1) << "another table, and the same layers";
  EXPECT_EQ(contents(*larger, 0, slot, 8), (std::vector<float>{-2, -1, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(contents(*larger, 2, slot, 2), (std::vector<float>{8, 9}));
}

// The same bytes, packed otherwise.
TEST_F(PooledStores, AnotherLayoutIsAnotherContent) {
  add(*a_, 0);
  const auto add_to = [&](const std::function<void(std::vector<WeightKind>&)>& change) {
    std::vector<WeightKind> kinds = small_kinds(3);
    change(kinds);
    const auto store = make_store(kinds);
    return match(*store, model(0)).new_bytes;
  };
  const uint64_t words = a_->slab(0).stride_bytes, matrix = a_->slab(2).stride_bytes;
  EXPECT_EQ(add_to([](auto&) {}), 0u);
  EXPECT_EQ(add_to([](auto& kinds) { kinds[2].gemm.activation = kernels::Activation::kGelu; }),
            matrix);
  EXPECT_EQ(add_to([](auto& kinds) { kinds[2].gemm.f32_out = true; }), matrix);
  EXPECT_GE(add_to([](auto& kinds) { kinds[2].gemm.has_bias = false; }), matrix);
  EXPECT_GE(add_to([](auto& kinds) {
              kinds[2].num_gemms = 2;
              kinds[2].gemm.n = 2;
            }),
            matrix);
  EXPECT_EQ(add_to([](auto& kinds) { kinds[0].fill = 1; }), words);
}

TEST_F(PooledStores, WithoutADeviceThatSharesStoresShareNothing) {
  device_.state().slots_can_share = false;
  add(*a_, 0);
  add(*b_, 0);
  EXPECT_EQ(slabs(), 2 * kSlabs);
}

TEST_F(PooledStores, AFailedShareLeaksNothing) {
  const uint32_t a = add(*a_, 0);
  for (int shares = 0; shares < static_cast<int>(kSlabs); ++shares) {
    device_.state().shares_until_failure = shares;
    EXPECT_EQ(try_add(*b_, model(0)).error().code, Code::kInternal);
    EXPECT_EQ(b_->used_bytes(), 0u);
    EXPECT_EQ(a_->used_bytes(), a_->slot_bytes());
    EXPECT_EQ(slabs(), kSlabs);
  }
  device_.state().shares_until_failure = -1;
  expect(*b_, add(*b_, 0), 0);
  a_->release(a);
  EXPECT_EQ(slabs(), kSlabs);
}

// The last store leaves the weights while another fails to take them.
TEST_F(PooledStores, AFailedLoadFreesWhatOnlyItWouldHold) {
  const uint32_t a = add(*a_, 0);
  const Checkpoint equal = model(0);
  {
    const auto match = this->match(*b_, equal);
    a_->release(a);
    device_.state().shares_until_failure = 1;
    EXPECT_FALSE(b_->add(match, b_->kinds(), equal, nullptr));
  }
  EXPECT_EQ(slabs(), 0u);
  device_.state().shares_until_failure = -1;
  expect(*b_, add(*b_, 0), 0);
}

// Words are equal; the rest fails.
TEST_F(PooledStores, AChangedFileLeavesSharedWeightsAlone) {
  const uint32_t a = add(*a_, 0);
  const testing::TempDirectory& directory = files_.emplace_back();
  const Checkpoint checkpoint = testing::write_changed_checkpoint(directory, 0, 8, 99);
  const auto match = this->match(*b_, checkpoint);
  EXPECT_EQ(match.new_bytes, a_->slab(2).stride_bytes);
  write_checkpoint(directory, 3, 200);
  EXPECT_EQ(b_->add(match, b_->kinds(), checkpoint, nullptr).error().code, Code::kCorrupt);
  EXPECT_EQ(b_->used_bytes(), 0u);
  EXPECT_EQ(slabs(), kSlabs);
  expect(*a_, a, 0);
}

TEST_F(PooledStores, LoadsOfEqualModelsIntoTwoStoresWaitForEachOther) {
  for (const bool fails : {false, true}) {
    const Checkpoint first = model(0), second = model(0);
    std::atomic<bool> has_matched{false};
    std::thread other;
    std::optional<WeightStore::Match> waited;
    std::optional<uint32_t> a;
    {
      const auto match = this->match(*a_, first);
      other = std::thread([&] {
        waited = this->match(*b_, second);
        has_matched = true;
      });
      wait_for_a_waiting_load();
      EXPECT_FALSE(has_matched) << "it waits for the load into the other store";
      if (!fails) a = a_->add(match, a_->kinds(), first, nullptr).value();
    }
    other.join();
    EXPECT_TRUE(waited->has_waited);
    const uint32_t b = try_add(*b_, second).value();
    expect(*b_, b, 0);
    EXPECT_EQ(slabs(), kSlabs);
    if (a) a_->release(*a);
    b_->release(b);
    EXPECT_EQ(slabs(), 0u);
  }
}

// Slots of a group that other groups share do not take away the group's own slots.
TEST_F(PooledStores, AStoreHasAllItsSlotsWhileOthersHoldItsWeights) {
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<uint32_t> slots;
    for (int i = 0; i < 4; ++i) slots.push_back(add(*a_, static_cast<float>(100 * turn + 25 * i)));
    if (turn == 0)
      for (int i = 0; i < 4; ++i) add(*b_, static_cast<float>(25 * i));
    for (int i = 0; i < 4; ++i) expect(*a_, slots[i], static_cast<float>(100 * turn + 25 * i));
    for (const uint32_t slot : slots) a_->release(slot);
  }
  for (uint32_t i = 0; i < 4; ++i) expect(*b_, i, static_cast<float>(25 * i));
}

}  // namespace
}  // namespace itif::model
