// Tenants whose weights are the same bytes share memory (GSLICE, section 3.3.3).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/random.h"
#include "support/sharing.h"

namespace itif::runtime {
namespace {

TEST_F(Sharing, IdenticalTenantsTakeTheMemoryOfOne) {
  const std::string a = make({}), b = copy(a), c = copy(a);
  const uint32_t first = admit(a);
  const size_t one = device_.state().slab_bytes, slabs = device_.state().live_slots;
  const size_t buffers = device_.state().buffer_bytes;
  EXPECT_EQ(one, bytes_of({{}}));
  const uint64_t weights = group_->weight_bytes(), scratch = scratch_bytes(first);
  ASSERT_GT(weights, one + scratch);
  for (const std::string& other : {b, c}) {
    const uint32_t slot = admit(other);
    EXPECT_EQ(group_->model(slot)->weight_slot, group_->model(first)->weight_slot);
    EXPECT_EQ(answer(slot), alone(a));
  }
  EXPECT_EQ(device_.state().slab_bytes, one);
  EXPECT_EQ(device_.state().live_slots, slabs);
  EXPECT_EQ(device_.state().buffer_bytes, buffers);
  EXPECT_EQ(group_->weight_bytes(), weights);
  EXPECT_EQ(group_->model(2)->weight_bytes, weights) << "what it would take alone";
}

TEST_F(Sharing, AClassifierSharesThePoolerOfAnotherModel) {
  const std::string pooler = make({.head = mkmodel::HeadChoice::kPooler}), classifier = make({});
  const uint32_t first = admit(pooler);
  const auto& a = group_->model(first)->head;
  const size_t buffers = device_.state().buffer_bytes;
  const uint32_t second = admit(classifier);
  const auto& b = group_->model(second)->head;
  EXPECT_EQ(a.pooler[0].weight->data(), b.pooler[0].weight->data());
  EXPECT_EQ(a.pooler[0].bias->data(), b.pooler[0].bias->data());
  EXPECT_EQ(device_.state().buffer_bytes, buffers + scratch_bytes(second) + b.bytes - a.bytes);
  EXPECT_EQ(group_->model(second)->weight_bytes - group_->model(first)->weight_bytes,
            b.bytes - a.bytes + scratch_bytes(second) - scratch_bytes(first));
  group_->release(first);
  EXPECT_EQ(answer(second), alone(classifier));
  group_->release(second);
  EXPECT_EQ(group_->weight_bytes(), 0u);
}

TEST_F(Sharing, AFailedHeadLeavesAnEqualOneAlone) {
  const std::string a = make({});
  admit(a);
  const size_t buffers = device_.state().buffer_bytes;
  const uint64_t weights = group_->weight_bytes();
  const std::string longer = make({.head = mkmodel::HeadChoice::kTokenClassification, .seed = 0});
  device_.state().allocations_until_failure = 2;  // the scratch, after the head
  EXPECT_EQ(group_->admit(longer, nullptr).error().message, "no memory for a buffer");
  device_.state().allocations_until_failure = -1;
  EXPECT_EQ(device_.state().buffer_bytes, buffers);
  EXPECT_EQ(group_->weight_bytes(), weights);
  EXPECT_EQ(answer(0), alone(a));
}

TEST_F(Sharing, HeadsOverAFrozenEncoderShareIt) {
  std::vector<std::string> directories;
  for (size_t i = 0; i < std::size(testing::SmallGroup::kHeads); ++i)
    directories.push_back(make({.head = testing::SmallGroup::kHeads[i], .seed = i}));
  for (const std::string& directory : directories) admit(directory);
  EXPECT_EQ(device_.state().slab_bytes, bytes_of({{}}));
  for (uint32_t slot = 0; slot < directories.size(); ++slot)
    EXPECT_EQ(answer(slot), alone(directories[slot])) << slot;
}

TEST_F(Sharing, FineTunedLayersAreStoredBesideSharedOnes) {
  const Variant base, half{.tuned_layers = {2, 3}, .seed = 5};
  const std::string a = make(base), b = make(half);
  admit(a);
  admit(b);
  EXPECT_NE(group_->model(0)->weight_slot, group_->model(1)->weight_slot);
  EXPECT_EQ(device_.state().slab_bytes, bytes_of({base, half}));
  EXPECT_LT(device_.state().slab_bytes, 2 * bytes_of({base}));
  EXPECT_EQ(answer(0), alone(a));
  EXPECT_EQ(answer(1), alone(b));
  EXPECT_NE(answer(0), answer(1));
}

TEST_F(Sharing, DeletionInEveryOrderFreesWhatOnlyTheTenantUsed) {
  const std::vector<Variant> variants = {{},
                                         {.seed = 2},  // another head
                                         {.tuned_layers = {2, 3}, .seed = 3},
                                         {.tuned_layers = {0}, .has_own_words = true, .seed = 4}};
  std::vector<std::string> directories;
  for (const Variant& variant : variants) directories.push_back(make(variant));
  std::vector<size_t> order = {0, 1, 2, 3};
  do {
    std::vector<uint32_t> slots;
    for (const std::string& directory : directories) slots.push_back(admit(directory));
    for (size_t released = 0; released < order.size(); ++released) {
      std::vector<Variant> left;
      for (size_t i = released; i < order.size(); ++i) left.push_back(variants[order[i]]);
      EXPECT_EQ(device_.state().slab_bytes, bytes_of(left));
      for (size_t i = released; i < order.size(); ++i)
        ASSERT_EQ(answer(slots[order[i]]), alone(directories[order[i]])) << order[i];
      group_->release(slots[order[released]]);
    }
    EXPECT_EQ(device_.state().slab_bytes, 0u);
    EXPECT_EQ(group_->weight_bytes(), 0u);
  } while (std::ranges::next_permutation(order).found);
}

// An update admits the new model, then releases the old.
TEST_F(Sharing, AnUpdateLeavesTheOtherTenantAlone) {
  const std::string a = make({}), b = make({.tuned_layers = {1}, .seed = 9});
  const uint32_t stays = admit(a), old = admit(copy(a));
  const uint32_t updated = admit(b);
  group_->release(old);
  EXPECT_EQ(answer(stays), alone(a));
  EXPECT_EQ(answer(updated), alone(b));
  group_->release(stays);
  EXPECT_EQ(answer(updated), alone(b));
  EXPECT_EQ(device_.state().slab_bytes, bytes_of({{.tuned_layers = {1}, .seed = 9}}));
}

// The base leaves, so that its places are free, then other tenants come.
TEST_F(Sharing, RandomTenantsAnswerAsAlone) {
  Random random(11);
  std::vector<Variant> variants;
  std::vector<std::string> directories;
  for (uint64_t i = 0; i < 10; ++i) {
    Variant& variant = variants.emplace_back();
    variant.seed = 1 + random.below(3);
    variant.has_own_words = random.below(4) == 0;
    for (uint32_t layer = 0; layer < kLayers; ++layer)
      if (random.below(3) == 0) variant.tuned_layers.insert(layer);
    directories.push_back(make(variant));
  }
  for (const bool can_share : {true, false}) {
    device_.state().slots_can_share = can_share;
    std::map<uint32_t, size_t> admitted;  // slot to variant
    for (int turn = 0; turn < 150; ++turn) {
      if (admitted.size() == kOptions.max_tenants || (!admitted.empty() && random.below(3) == 0)) {
        const auto chosen = std::next(admitted.begin(), random.below(admitted.size()));
        group_->release(chosen->first);
        admitted.erase(chosen);
      } else {
        const size_t variant = random.below(variants.size());
        admitted[admit(directories[variant])] = variant;
      }
      std::vector<Variant> held;
      for (const auto& [slot, variant] : admitted) {
        held.push_back(variants[variant]);
        ASSERT_EQ(answer(slot), alone(directories[variant])) << turn;
      }
      if (can_share) {
        ASSERT_EQ(device_.state().slab_bytes, bytes_of(held)) << turn;
      }
    }
    for (const auto& [slot, variant] : admitted) group_->release(slot);
  }
}

// The word embeddings are longer than the bytes by which likely sharers are found.
TEST_F(Sharing, OneChangedBitIsAnotherContent) {
  const std::string a = make({});
  std::string bytes =
      files_.read(std::filesystem::path(a).filename().string() + "/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  const std::string names = bytes.substr(8, header);
  const size_t entry = names.find("word_embeddings");
  const size_t offsets = names.find("data_offsets", entry);
  const size_t end = std::stoul(names.substr(names.find(',', offsets) + 1));
  ASSERT_GT(end, 4096u);
  bytes[8 + header + end - 1] ^= '\x80';  // the sign of the last id's last value
  const std::string b = copy(a);
  files_.write(std::filesystem::path(b).filename().string() + "/model.safetensors", bytes);
  admit(a);
  admit(b);
  EXPECT_NE(group_->model(0)->weight_slot, group_->model(1)->weight_slot);
  const size_t words = size_t{131} * 21 * sizeof(float);
  EXPECT_EQ(device_.state().slab_bytes, bytes_of({{}}) + words);
  EXPECT_EQ(answer(1), alone(b));
  EXPECT_NE(answer(0), answer(1));
}

TEST_F(Sharing, ATenantFitsWithRoomForWhatItDoesNotShare) {
  const std::string a = make({}), b = copy(a), c = make({.tuned_layers = {0}, .seed = 7});
  admit(a);
  device_.state().available_bytes = 0;
  admit(b);
  const auto refused = group_->admit(c, nullptr);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(device_.state().slab_bytes, bytes_of({{}}));
}

TEST_F(Sharing, WithoutItEachTenantHasItsOwnCopy) {
  GroupOptions options = kOptions;
  options.shares_weights = false;
  group_ = make_encoder_group(device_, spec(), options).value();
  const std::string a = make({});
  const size_t buffers = device_.state().buffer_bytes;
  admit(a);
  const size_t of_one = device_.state().buffer_bytes - buffers;
  admit(a);
  const size_t scratch = scratch_bytes(0);
  EXPECT_EQ(device_.state().slab_bytes, 2 * bytes_of({{}}));
  EXPECT_EQ(device_.state().buffer_bytes - buffers, 2 * of_one - scratch) << "heads, too";
  EXPECT_NE(group_->model(0)->weight_slot, group_->model(1)->weight_slot);
}

// A fine-tune of the biases alone (BitFit). Each tenant's GEMMs add its own biases.
TEST_F(Sharing, MatricesUnderOtherBiasesAreStoredOnce) {
  const std::string a = make({}), b = files_.file("biases");
  mkmodel::ModelOptions options =
      testing::loud_model(spec(), mkmodel::HeadChoice::kClassification, 1);
  options.is_tuned = [](const std::string& tensor) { return tensor.ends_with(".bias"); };
  options.tuned_seed = 9;
  ASSERT_TRUE(mkmodel::make_model(options, b));
  uint64_t vector_bytes = 0;
  for (const auto& kind : backbone::find_family("bert").value()->weight_kinds(spec()))
    if (kind.storage == model::Storage::kVector)
      vector_bytes += (model::elements(kind) * sizeof(float) + 63) / 64 * 64;
  for (const char* type : {"plain", "f32", "bf16"}) {
    SCOPED_TRACE(type);
    const auto device = testing::make_device(type);
    if (device == nullptr) continue;
    const auto group = make_encoder_group(*device, spec(), kOptions).value();
    const auto apart = make_encoder_group(*device, spec(), kOptions).value();
    const uint32_t first = group->admit(a, nullptr).value();
    const uint64_t of_one = group->weight_bytes();
    const uint32_t second = group->admit(b, nullptr).value();
    const uint64_t added = group->weight_bytes() - of_one - group->model(second)->head.bytes;
    EXPECT_LE(added, (vector_bytes + 4095) / 4096 * 4096);
    const auto stream = device->make_stream(group->stream_limits()).value();
    const auto answers = testing::run_batch(
        *group, *stream,
        {{.slot = first, .ids = {1, 5, 130}}, {.slot = second, .ids = {1, 5, 130}}});
    EXPECT_NE(answers[0].bytes, answers[1].bytes);
    const uint32_t other = apart->admit(b, nullptr).value();
    EXPECT_EQ(answers[1].bytes, answer_of(*apart, *device, other));
    group->release(first);
    EXPECT_EQ(answer_of(*group, *device, second), answers[1].bytes);
  }
}

// oneDNN and its prepacked weights: shared layers are read through the slab's offsets.
TEST_F(Sharing, TheHostDeviceSharesToo) {
  const Variant base, half{.tuned_layers = {2, 3}, .seed = 5};
  const std::string a = make(base), b = make(half), c = make({.tuned_layers = {1}, .seed = 6});
  for (const char* kind : {"f32", "bf16"}) {
    const auto device = testing::make_device(kind);
    if (device == nullptr) continue;
    const auto group = make_encoder_group(*device, spec(), kOptions).value();
    const auto alone =
        make_encoder_group(
            *device, spec(),
            {.max_tokens = 200, .max_requests = 16, .max_tenants = 4, .shares_weights = false})
            .value();
    uint64_t unshared = 0;
    for (const std::string& directory : {a, b, c, a}) {
      ASSERT_TRUE(group->admit(directory, nullptr));
      ASSERT_TRUE(alone->admit(directory, nullptr));
    }
    unshared = alone->weight_bytes();
    EXPECT_LT(group->weight_bytes(), unshared);
    for (uint32_t slot : {0, 1, 2, 3})
      EXPECT_EQ(answer_of(*group, *device, slot), answer_of(*alone, *device, slot)) << slot;
    group->release(0);
    group->release(3);
    for (uint32_t slot : {1, 2})
      EXPECT_EQ(answer_of(*group, *device, slot), answer_of(*alone, *device, slot)) << slot;
    ASSERT_TRUE(group->admit(c, nullptr));
    EXPECT_EQ(answer_of(*group, *device, 0), answer_of(*alone, *device, 2));
    EXPECT_EQ(answer_of(*group, *device, 1), answer_of(*alone, *device, 1));
  }
}

}  // namespace
}  // namespace itif::runtime
