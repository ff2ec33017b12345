#include "model/weight_store.h"

#include <gtest/gtest.h>

#include <list>

#include "model/packed_matrix.h"
#include "support/plain_device.h"
#include "support/small_weights.h"

namespace itif::model {
namespace {

using testing::contents;
using testing::entry;
using testing::named;
using testing::PlainDevice;
using testing::small_kinds;
using testing::write_checkpoint;

// Each GEMM's weights start on their own cache line.
TEST(WeightStore, GemmsOfOneMatrixStartOnCacheLines) {
  PlainDevice device;
  std::vector<WeightKind> kinds = small_kinds(3);
  kinds[2].num_gemms = 2;
  kinds[2].gemm.n /= 2;
  const auto store = WeightStore::create(device, kinds, 2).value();
  testing::TempDirectory files;
  const Checkpoint checkpoint = write_checkpoint(files, 3, 0);
  ASSERT_EQ(store->acquire().value(), 0u);
  ASSERT_TRUE(store->load(0, kinds, checkpoint, nullptr));
  const size_t stride = gemm_stride_bytes(device, kinds[2].gemm).value() / sizeof(float);
  ASSERT_EQ(stride, 16u);
  const auto values = contents(*store, 2, 0, stride + 4);
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 4),
            (std::vector<float>{8, 9, 10, 11}));
  EXPECT_EQ(std::vector<float>(values.end() - 4, values.end()),
            (std::vector<float>{12, 13, 14, 15}));
  EXPECT_TRUE(device.state().packed_biases.empty()) << "a matrix of several GEMMs packs no bias";
}

TEST(WeightStore, TenantsAreConcatenatedByWeightKind) {
  PlainDevice device;
  device.state().packs_biases = true;
  const auto store = WeightStore::create(device, small_kinds(3), 4).value();
  EXPECT_EQ(device.state().live_slots, 0u);
  testing::TempDirectory first, second;
  const Checkpoint a = write_checkpoint(first, 3, 0);
  const Checkpoint b = write_checkpoint(second, 2, 100);
  EXPECT_EQ(store->loading_bytes(store->no_match(), small_kinds(3), a), 2u * 4 * 2 * 4)
      << "the matrix as it is in the file, and the copy that is packed";
  ASSERT_EQ(store->acquire().value(), 0u);
  ASSERT_EQ(store->acquire().value(), 1u);
  std::vector<size_t> reported;
  ASSERT_TRUE(store->load(0, small_kinds(3), a, [&](size_t i) { reported.push_back(i); }));
  EXPECT_EQ(reported, (std::vector<size_t>{0, 1, 2, 3}));
  // A table with fewer rows than the group's.
  ASSERT_TRUE(store->load(1, small_kinds(2), b, nullptr));
  EXPECT_EQ(contents(*store, 0, 0, 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(contents(*store, 1, 0, 2), (std::vector<float>{6, 7}));
  EXPECT_EQ(contents(*store, 2, 0, 8), (std::vector<float>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(contents(*store, 3, 0, 4), (std::vector<float>{16, 17, 18, 19}));
  EXPECT_EQ(contents(*store, 0, 1, 4), (std::vector<float>{100, 101, 102, 103}));
  EXPECT_EQ(contents(*store, 3, 1, 4), (std::vector<float>{114, 115, 116, 117}));
  EXPECT_EQ(device.state().packed_biases[store->slab(2).at(1)],
            (std::vector<float>{114, 115, 116, 117}));
  // Two tenants use three slabs each: the table, the matrix, and one that both vectors share.
  EXPECT_EQ(device.state().live_slots, 2u * 3);
  EXPECT_EQ(store->slab(1).stride_bytes, store->slab(3).stride_bytes);
  EXPECT_EQ((store->slab(3).base - store->slab(1).base) % 64, 0);
  EXPECT_EQ(store->slot_bytes(), 3 * 2 * 4 + 4 * 2 * 4 + store->slab(1).stride_bytes);
}

TEST(WeightStore, SlotsAreReusedAndRunOut) {
  PlainDevice device;
  const auto store = WeightStore::create(device, small_kinds(3), 2).value();
  EXPECT_EQ(store->acquire().value(), 0u);
  EXPECT_EQ(store->acquire().value(), 1u);
  const auto full = store->acquire();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kResourceExhausted);
  EXPECT_NE(full.error().message.find("all 2 slots"), std::string::npos);
  store->release(0);
  EXPECT_EQ(device.state().live_slots, 3u);
  EXPECT_EQ(store->acquire().value(), 0u);
  store->release(0);
  store->release(1);
  EXPECT_EQ(device.state().live_slots, 0u);
}

class SharedStore : public ::testing::Test {
 protected:
  // Returns the slot of the model in a new directory.
  uint32_t add(uint64_t rows, float first) {
    const Checkpoint checkpoint = write_checkpoint(files_.emplace_back(), rows, first);
    const auto match = store_->match(small_kinds(rows), checkpoint, nullptr).value();
    const uint64_t before = store_->used_bytes();
    const auto slot = store_->add(match, small_kinds(rows), checkpoint, nullptr);
    EXPECT_TRUE(slot) << slot.error().message;
    EXPECT_EQ(store_->used_bytes() - before, match.new_bytes);
    return *slot;
  }
  // Writes a model whose values equal those of `first`, except the one at `at`.
  Checkpoint with_change(float first, size_t at, float then) {
    return testing::write_changed_checkpoint(files_.emplace_back(), first, at, then);
  }
  uint32_t add(const Checkpoint& checkpoint) {
    const auto match = store_->match(small_kinds(3), checkpoint, nullptr).value();
    return store_->add(match, small_kinds(3), checkpoint, nullptr).value();
  }

  // Makes the device pack biases, and the store again.
  void pack_biases() {
    device_.state().packs_biases = true;
    store_ = WeightStore::create(device_, small_kinds(3), 4).value();
  }

  PlainDevice device_;
  std::list<testing::TempDirectory> files_;
  std::unique_ptr<WeightStore> store_ = WeightStore::create(device_, small_kinds(3), 4).value();
};

TEST_F(SharedStore, EqualModelsHoldOneSlot) {
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(3, 50), 1u);
  EXPECT_EQ(store_->num_holders(0), 2u);
  EXPECT_EQ(device_.state().live_slots, 2u * 3);
  store_->release(0);
  EXPECT_EQ(contents(*store_, 0, 0, 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  store_->release(0);
  EXPECT_EQ(device_.state().live_slots, 3u);
  // Released contents are not found any more.
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(contents(*store_, 0, 0, 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST_F(SharedStore, SlabsThatDifferAreStoredTwice) {
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(with_change(0, 7, 99)), 1u);  // gamma, a vector
  EXPECT_EQ(device_.state().live_slots, 3u + 1);
  EXPECT_EQ(store_->slab(0).at(1), store_->slab(0).at(0));
  EXPECT_EQ(contents(*store_, 1, 1, 2), (std::vector<float>{6, 99}));
  EXPECT_EQ(contents(*store_, 1, 0, 2), (std::vector<float>{6, 7}));
  EXPECT_EQ(contents(*store_, 3, 1, 4), (std::vector<float>{16, 17, 18, 19}));
}

TEST_F(SharedStore, AMatrixIsStoredOnceUnderDifferentBiases) {
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(with_change(0, 19, 99)), 1u);
  EXPECT_EQ(store_->slab(2).at(1), store_->slab(2).at(0));
  EXPECT_EQ(device_.state().live_slots, 3u + 1);
  EXPECT_EQ(contents(*store_, 3, 0, 4), (std::vector<float>{16, 17, 18, 19}));
  EXPECT_EQ(contents(*store_, 3, 1, 4), (std::vector<float>{16, 17, 18, 99}));
  // They are no equal weights of a GEMM, which adds the bias.
  const uint32_t* numbers = store_->view().numbers[2];
  EXPECT_NE(numbers[0], numbers[1]);
  store_->release(0);
  EXPECT_EQ(contents(*store_, 2, 1, 2), (std::vector<float>{8, 9}));
}

// If the packed weight holds a copy of its bias, it is not shared under another one.
TEST_F(SharedStore, AWeightWithAnotherPackedBiasIsPackedAgain) {
  pack_biases();
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(with_change(0, 19, 99)), 1u);
  EXPECT_NE(store_->slab(2).at(1), store_->slab(2).at(0));
  EXPECT_EQ(device_.state().packed_biases[store_->slab(2).at(1)],
            (std::vector<float>{16, 17, 18, 99}));
  EXPECT_EQ(device_.state().packed_biases[store_->slab(2).at(0)],
            (std::vector<float>{16, 17, 18, 19}));
}

// A changed weight whose bias is shared: the bias is packed, and not stored again.
TEST_F(SharedStore, AChangedWeightPacksItsSharedBias) {
  pack_biases();
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(with_change(0, 8, 99)), 1u);
  EXPECT_EQ(store_->slab(3).at(1), store_->slab(3).at(0));
  EXPECT_EQ(contents(*store_, 2, 1, 2), (std::vector<float>{99, 9}));
  EXPECT_EQ(device_.state().packed_biases[store_->slab(2).at(1)],
            (std::vector<float>{16, 17, 18, 19}));
}

// The first rows of both tables are equal; the larger one's last row is the smaller one's nothing.
TEST_F(SharedStore, ASmallerTableIsAnotherContent) {
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(2, 0), 1u);
  EXPECT_NE(store_->slab(0).at(1), store_->slab(0).at(0));
}

TEST_F(SharedStore, WithoutADeviceThatSharesOnlyWholeModelsAreShared) {
  device_.state().slots_can_share = false;
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(3, 0), 0u);
  EXPECT_EQ(add(with_change(0, 7, 99)), 1u);
  EXPECT_EQ(device_.state().live_slots, 2u * 3);
  EXPECT_EQ(contents(*store_, 0, 1, 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

// All values are 0x3c00: 1 in F16, 0.0078 in BF16.
TEST_F(SharedStore, TheSameBytesOfAnotherTypeAreAnotherContent) {
  const std::vector<WeightKind> kinds = {{"words", Storage::kTable, {named("words")}, {3, 2}}};
  store_ = WeightStore::create(device_, kinds, 4).value();
  const auto add = [&](const char* type) {
    const testing::TempDirectory& directory = files_.emplace_back();
    const std::string header = "{" + entry("words", type, "[3,2]", 0, 12) + "}";
    std::string bytes;
    for (int i = 0; i < 6; ++i) bytes += std::string("\0\x3c", 2);
    directory.write("model.safetensors", testing::safetensors(header, bytes));
    const Checkpoint checkpoint = Checkpoint::open(directory.path()).value();
    const auto match = store_->match(kinds, checkpoint, nullptr).value();
    return store_->add(match, kinds, checkpoint, nullptr).value();
  };
  EXPECT_EQ(add("F16"), 0u);
  EXPECT_EQ(add("BF16"), 1u);
  EXPECT_EQ(contents(*store_, 0, 0, 1), (std::vector<float>{1}));
  EXPECT_EQ(contents(*store_, 0, 1, 1), (std::vector<float>{0.0078125}));
  EXPECT_EQ(add("F16"), 0u);
}

// Slots that the caller fills have contents that nobody knows.
TEST_F(SharedStore, AcquiredSlotsAreNotShared) {
  EXPECT_EQ(store_->acquire().value(), 0u);
  EXPECT_EQ(add(3, 0), 1u);
  EXPECT_EQ(add(3, 0), 1u);
}

// A file that changes between comparison and loading would be stored under a wrong content.
TEST_F(SharedStore, AFileThatChangesAfterTheMatchIsRefused) {
  EXPECT_EQ(add(3, 0), 0u);
  const Checkpoint checkpoint = with_change(0, 8, 99);
  const auto match = store_->match(small_kinds(3), checkpoint, nullptr).value();
  const size_t live = device_.state().live_slots;
  write_checkpoint(files_.back(), 3, 200);
  const auto changed = store_->add(match, small_kinds(3), checkpoint, nullptr);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::kCorrupt);
  EXPECT_NE(changed.error().message.find("matrix changed while it was read"), std::string::npos)
      << changed.error().message;
  EXPECT_EQ(device_.state().live_slots, live);
  EXPECT_EQ(contents(*store_, 0, 0, 6), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST_F(SharedStore, AFailedAddLeaksNothing) {
  EXPECT_EQ(add(3, 0), 0u);
  const Checkpoint checkpoint = with_change(0, 8, 99);
  const auto match = store_->match(small_kinds(3), checkpoint, nullptr).value();
  device_.state().allocations_until_failure = 0;
  EXPECT_EQ(store_->add(match, small_kinds(3), checkpoint, nullptr).error().code,
            Code::kResourceExhausted);
  EXPECT_EQ(device_.state().live_slots, 3u);
  device_.state().allocations_until_failure = -1;
  EXPECT_EQ(store_->add(match, small_kinds(3), checkpoint, nullptr).value(), 1u);
}

TEST(WeightStore, AFailedCommitLeaksNothing) {
  for (int budget = 0; budget < 3; ++budget) {
    PlainDevice device;
    const auto store = WeightStore::create(device, small_kinds(3), 2).value();
    device.state().allocations_until_failure = budget;
    EXPECT_EQ(store->acquire().error().code, Code::kResourceExhausted);
    EXPECT_EQ(device.state().live_slots, 0u);
    device.state().allocations_until_failure = -1;
    EXPECT_EQ(store->acquire().value(), 0u);
  }
}

TEST(WeightStore, MissingTensorsAreNamed) {
  PlainDevice device;
  const auto store = WeightStore::create(device, small_kinds(3), 1).value();
  testing::TempDirectory directory;
  directory.write("model.safetensors", testing::safetensors("{}", ""));
  const Checkpoint empty = Checkpoint::open(directory.path()).value();
  ASSERT_TRUE(store->acquire());
  const auto loaded = store->load(0, small_kinds(3), empty, nullptr);
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("tensor \"words\": expected [3, 2], found none"),
            std::string::npos);
}

// Tables, matrices and their biases are converted; other vectors stay f32.
TEST(WeightStore, WeightsThatF16CannotHoldAreRefusedByTensor) {
  const std::vector<WeightKind> kinds = {
      {"gamma", Storage::kVector, {named("gamma")}, {2}},
      {"matrix", Storage::kMatrix, {named("matrix")}, {2, 1}, {.n = 2, .k = 1, .has_bias = true}},
      {"bias", Storage::kVector, {named("bias")}, {2}},
      {"words", Storage::kTable, {named("words")}, {2, 1}},
  };
  const auto load = [&](size_t large, const ComputeTypes& types) -> Status {
    testing::TempDirectory directory;
    std::string header = "{";
    std::vector<float> values;
    for (size_t i = 0; i < kinds.size(); ++i) {
      header += (i ? "," : "") + entry(kinds[i].name, "F32",
                                       kinds[i].source_shape.rank == 2 ? "[2,1]" : "[2]", i * 8,
                                       i * 8 + 8);
      values.insert(values.end(), {1, i == large ? 70000.f : 2.f});
    }
    directory.write("model.safetensors",
                    testing::safetensors(header + "}", testing::f32_bytes(values)));
    PlainDevice device;
    device.claim_types(types);
    const auto store = WeightStore::create(device, kinds, 1).value();
    EXPECT_TRUE(store->acquire());
    return store->load(0, kinds, Checkpoint::open(directory.path()).value(), nullptr);
  };
  for (size_t i = 1; i < kinds.size(); ++i) {
    const Status refused = load(i, uniform_types(DType::kF16));
    ASSERT_FALSE(refused) << kinds[i].name;
    EXPECT_NE(refused.error().message.find("tensor \"" + kinds[i].name +
                                           "\": element 1 is 70000, and f16 cannot hold it"),
              std::string::npos)
        << refused.error().message;
    EXPECT_TRUE(load(i, uniform_types(DType::kF32)));
  }
  const DType f16 = DType::kF16, f32 = DType::kF32;
  EXPECT_TRUE(load(0, {.weights = f16, .activations = f32}));
  EXPECT_FALSE(load(1, {.weights = f16, .activations = f32}));
  EXPECT_TRUE(load(2, {.weights = f16, .activations = f32}));
}

}  // namespace
}  // namespace itif::model
