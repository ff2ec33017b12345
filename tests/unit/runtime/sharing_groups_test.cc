// Groups of one device whose tenants have equal weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <thread>

#include "base/random.h"
#include "support/sharing.h"

namespace itif::runtime {
namespace {

class SharingGroups : public Sharing {
 protected:
  std::unique_ptr<EncoderGroup> make_group(device::Device& device) {
    GroupOptions options = kOptions;
    options.weight_pool = &pool_;
    return make_encoder_group(device, spec(), options).value();
  }
  std::unique_ptr<EncoderGroup> make_group() { return make_group(device_); }
  // The device memory that counts for the group, without the scratch of its tenants' heads, which
  // are of one size.
  static uint64_t weight_bytes(const EncoderGroup& group) {
    for (uint32_t slot = 0; slot < kOptions.max_tenants; ++slot)
      if (const model::TenantModel* model = group.model(slot))
        return group.weight_bytes() - scratch_bytes(*model);
    return group.weight_bytes();
  }
  static uint64_t scratch_bytes(const model::TenantModel& model) {
    return HeadScratch::bytes_of(model.head.spec, kOptions);
  }

  model::WeightPool pool_;
};

TEST_F(SharingGroups, AGroupOfTheSameModelTakesNoMemoryForIt) {
  const std::string a = make({}), b = copy(a);
  const auto first = make_group(), second = make_group();
  const uint32_t slot = first->admit(a, nullptr).value();
  const size_t one = device_.state().slab_bytes + first->model(slot)->head.bytes;
  const size_t buffers = device_.state().buffer_bytes;
  const uint32_t other = second->admit(b, nullptr).value();
  EXPECT_EQ(device_.state().slab_bytes, bytes_of({{}}));
  EXPECT_EQ(device_.state().buffer_bytes, buffers + scratch_bytes(*second->model(other)));
  EXPECT_EQ(weight_bytes(*first), one);
  EXPECT_EQ(weight_bytes(*second), 0u);
  EXPECT_EQ(second->model(other)->weight_bytes, first->model(slot)->weight_bytes)
      << "what it would take alone";
  EXPECT_EQ(answer_of(*second, device_, other), alone(a));
  first->release(slot);
  EXPECT_EQ(weight_bytes(*first), 0u);
  EXPECT_EQ(weight_bytes(*second), one);
  EXPECT_EQ(answer_of(*second, device_, other), alone(a));
  second->release(other);
  EXPECT_EQ(device_.state().slab_bytes, 0u);
}

TEST_F(SharingGroups, AGroupThatEndsLeavesOthersTheirWeights) {
  const std::string a = make({}), b = make({.tuned_layers = {1}, .seed = 4});
  auto first = make_group();
  const auto second = make_group();
  ASSERT_TRUE(first->admit(b, nullptr));
  ASSERT_TRUE(first->admit(a, nullptr));
  const uint32_t other = second->admit(a, nullptr).value();
  first.reset();
  EXPECT_EQ(device_.state().slab_bytes, bytes_of({{}}));
  EXPECT_EQ(weight_bytes(*second), bytes_of({{}}) + second->model(other)->head.bytes);
  EXPECT_EQ(answer_of(*second, device_, other), alone(a));
}

TEST_F(SharingGroups, AGroupThatDoesNotShareHasItsOwnCopies) {
  const std::string a = make({});
  const auto first = make_group();
  GroupOptions options = kOptions;
  options.weight_pool = &pool_;
  options.shares_weights = false;
  const auto second = make_encoder_group(device_, spec(), options).value();
  ASSERT_TRUE(second->admit(a, nullptr));
  ASSERT_TRUE(first->admit(a, nullptr));
  EXPECT_EQ(device_.state().slab_bytes, 2 * bytes_of({{}}));
}

TEST_F(SharingGroups, AnotherGroupsTenantFitsWithRoomForWhatItDoesNotShare) {
  const std::string a = make({}), c = make({.tuned_layers = {0}, .seed = 7});
  const auto first = make_group(), second = make_group();
  const uint32_t slot = first->admit(a, nullptr).value();
  device_.state().available_bytes = scratch_bytes(*first->model(slot));
  EXPECT_EQ(second->admit(c, nullptr).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(second->admit(a, nullptr));
}

// A moved group is made again on the other device, and the old one ends.
TEST_F(SharingGroups, AGroupMovesToAnotherDevice) {
  const std::string a = make({});
  testing::PlainDevice fallback;
  model::WeightPool other_pool;
  auto stays = make_group(), moves = make_group();
  ASSERT_TRUE(moves->admit(a, nullptr));
  const uint32_t slot = stays->admit(a, nullptr).value();
  GroupOptions options = kOptions;
  options.weight_pool = &other_pool;
  auto moved = make_encoder_group(fallback, spec(), options).value();
  ASSERT_TRUE(moved->admit(a, nullptr));
  EXPECT_EQ(weight_bytes(*moved), bytes_of({{}}) + moved->model(0)->head.bytes);
  moves.reset();
  EXPECT_EQ(answer_of(*stays, device_, slot), alone(a));
  EXPECT_EQ(answer_of(*moved, fallback, 0), alone(a));
  stays.reset();
  EXPECT_EQ(device_.state().slab_bytes, 0u) << "the device can be reset";
  EXPECT_EQ(fallback.state().slab_bytes, bytes_of({{}}));
}

TEST_F(SharingGroups, RandomTenantsAnswerAsAlone) {
  Random random(17);
  std::vector<Variant> variants;
  std::vector<std::string> directories;
  for (uint64_t i = 0; i < 8; ++i) {
    Variant& variant = variants.emplace_back();
    variant.seed = 1 + random.below(3);
    variant.has_own_words = random.below(4) == 0;
    for (uint32_t layer = 0; layer < kLayers; ++layer)
      if (random.below(3) == 0) variant.tuned_layers.insert(layer);
    directories.push_back(make(variant));
  }
  const size_t none = device_.state().buffer_bytes;
  const size_t workspace = [&] {
    const auto group = make_group();
    return device_.state().buffer_bytes - none;
  }();
  std::array<std::unique_ptr<EncoderGroup>, 3> groups;
  std::array<std::map<uint32_t, size_t>, 3> admitted;  // slot to variant
  for (int turn = 0; turn < 200; ++turn) {
    const size_t number = random.below(groups.size());
    auto& group = groups[number];
    auto& tenants = admitted[number];
    if (group == nullptr) group = make_group();
    if (random.below(25) == 0) {
      group.reset();
      tenants.clear();
    } else if (tenants.size() == kOptions.max_tenants ||
               (!tenants.empty() && random.below(2) == 0)) {
      const auto chosen = std::next(tenants.begin(), random.below(tenants.size()));
      group->release(chosen->first);
      tenants.erase(chosen);
    } else {
      const size_t variant = random.below(variants.size());
      device_.state().shares_until_failure = random.below(3) == 0 ? 2 : -1;
      const auto slot = group->admit(directories[variant], nullptr);
      if (slot)
        tenants[*slot] = variant;
      else
        ASSERT_EQ(slot.error().message, "a slot cannot be mapped");
      device_.state().shares_until_failure = -1;
    }
    std::vector<Variant> held;
    uint64_t counted = 0, buffers = device_.state().buffer_bytes - none;
    for (size_t i = 0; i < groups.size(); ++i) {
      if (groups[i] != nullptr) {
        counted += groups[i]->weight_bytes();
        buffers -= workspace;
      }
      for (const auto& [slot, variant] : admitted[i]) {
        held.push_back(variants[variant]);
        ASSERT_EQ(answer_of(*groups[i], device_, slot), alone(directories[variant])) << turn;
      }
    }
    ASSERT_EQ(device_.state().slab_bytes, bytes_of(held)) << turn;
    ASSERT_EQ(counted, bytes_of(held) + buffers) << turn << ": also heads and their scratch";
  }
}

// oneDNN and its prepacked weights.
TEST_F(SharingGroups, TheHostDeviceSharesToo) {
  const std::string a = make({}), b = make({.tuned_layers = {2, 3}, .seed = 5});
  for (const char* kind : {"f32", "bf16"}) {
    const auto device = testing::make_device(kind);
    if (device == nullptr) continue;
    const auto apart = make_encoder_group(*device, spec(), kOptions).value();
    const std::array slots = {apart->admit(a, nullptr).value(), apart->admit(b, nullptr).value()};
    const auto expect = [&](EncoderGroup& group, uint32_t slot, size_t model) {
      EXPECT_EQ(answer_of(group, *device, slot), answer_of(*apart, *device, slots[model]));
    };
    auto first = make_group(*device);
    const auto second = make_group(*device);
    const uint32_t first_a = first->admit(a, nullptr).value();
    const uint64_t bytes = weight_bytes(*first);
    const uint32_t second_a = second->admit(a, nullptr).value();
    EXPECT_EQ(weight_bytes(*second), 0u);
    expect(*second, second_a, 0);
    const uint32_t second_b = second->admit(b, nullptr).value();
    EXPECT_LT(weight_bytes(*second), bytes);
    expect(*second, second_b, 1);
    first->release(first_a);
    expect(*second, second_a, 0);
    const uint32_t first_b = first->admit(b, nullptr).value();
    EXPECT_EQ(weight_bytes(*first), 0u);
    second->release(second_b);
    second->release(second_a);
    expect(*first, first_b, 1);
    EXPECT_EQ(weight_bytes(*first), bytes);
    const uint32_t back = second->admit(a, nullptr).value();
    first.reset();
    expect(*second, back, 0);
  }
}

// Threads admit equal and related models into two groups, and release them.
TEST_F(SharingGroups, ThreadsLoadIntoTwoGroupsAtTheSameTime) {
  const auto device = testing::make_device("f32");
  const std::array directories = {make({}), make({.tuned_layers = {3}, .seed = 2}), make({})};
  const auto apart = make_encoder_group(*device, spec(), kOptions).value();
  std::vector<std::vector<std::byte>> answers;
  for (const std::string& directory : directories)
    answers.push_back(answer_of(*apart, *device, apart->admit(directory, nullptr).value()));
  const std::array groups = {make_group(*device), make_group(*device)};
  for (int round = 0; round < 5; ++round) {
    constexpr size_t kThreads = 6;
    std::array<std::atomic<uint32_t>, kThreads> slots;
    std::latch start(kThreads);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        for (int turn = 0; turn < 4; ++turn) {
          const auto slot = groups[i % 2]->admit(directories[i / 2], nullptr);
          ASSERT_TRUE(slot) << slot.error().message;
          if (turn < 3)
            groups[i % 2]->release(*slot);
          else
            slots[i] = *slot;
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < kThreads; ++i)
      EXPECT_EQ(answer_of(*groups[i % 2], *device, slots[i]), answers[i / 2]);
    for (size_t i = 0; i < kThreads; ++i) groups[i % 2]->release(slots[i]);
    EXPECT_EQ(groups[0]->weight_bytes() + groups[1]->weight_bytes(), 0u);
  }
}

}  // namespace
}  // namespace itif::runtime
