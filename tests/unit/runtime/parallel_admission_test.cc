// Several threads admit models into one group at the same time. Runs on the host device, because
// the plain one is for one thread.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <set>
#include <thread>

#include "runtime/load_memory.h"
#include "support/sharing.h"

namespace itif::runtime {
namespace {

class ParallelAdmission : public Sharing {
 protected:
  ParallelAdmission() { make_group(0); }

  // `limit_bytes` 0: none.
  void make_group(size_t limit_bytes) {
    group.reset();
    device::DeviceOptions options;
    options.kind = "host";
    options.dtype = "f32";
    options.num_threads = 1;
    options.memory_limit_bytes = limit_bytes;
    device = device::open_device(options).value();
    auto made = make_encoder_group(*device, spec(), kOptions);
    if (made) group = std::move(*made);
  }
  // Admits all at the same time and returns the results.
  std::vector<Result<uint32_t>> admit(const std::vector<std::string>& directories) {
    std::vector<Result<uint32_t>> results(directories.size());
    std::latch start(static_cast<std::ptrdiff_t>(directories.size()));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < directories.size(); ++i)
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        results[i] = group->admit(directories[i], nullptr);
      });
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  std::vector<std::byte> answer(uint32_t slot) { return answer_of(*group, *device, slot); }
  // The answer of a group that has only this tenant.
  std::vector<std::byte> alone(const std::string& directory) {
    const auto other = make_encoder_group(*device, spec(), kOptions).value();
    return answer_of(*other, *device, other->admit(directory, nullptr).value());
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<EncoderGroup> group;
};

TEST_F(ParallelAdmission, DifferentModelsAnswerAsAlone) {
  std::vector<std::string> directories;
  for (uint64_t seed = 1; seed <= 4; ++seed)
    directories.push_back(
        make({.tuned_layers = {0, 1, 2, 3}, .has_own_words = true, .seed = seed}));
  for (int round = 0; round < 3; ++round) {
    const auto slots = admit(directories);
    std::set<uint32_t> used;
    for (size_t i = 0; i < slots.size(); ++i) {
      ASSERT_TRUE(slots[i]) << slots[i].error().message;
      used.insert(*slots[i]);
      EXPECT_EQ(answer(*slots[i]), alone(directories[i])) << directories[i];
    }
    EXPECT_EQ(used.size(), slots.size());
    std::vector<std::thread> threads;
    for (const auto& slot : slots) threads.emplace_back([&] { group->release(*slot); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(group->num_tenants(), 0u);
    EXPECT_EQ(group->weight_bytes(), 0u);
  }
}

TEST_F(ParallelAdmission, EqualModelsShareOneSlotOfWeights) {
  const std::string first = make({});
  const auto slots = admit({first, copy(first), copy(first), first});
  for (const auto& slot : slots) ASSERT_TRUE(slot) << slot.error().message;
  for (const auto& slot : slots)
    EXPECT_EQ(group->model(*slot)->weight_slot, group->model(*slots[0])->weight_slot);
  for (const auto& slot : slots) group->release(*slot);
  EXPECT_EQ(group->weight_bytes(), 0u);
}

TEST_F(ParallelAdmission, FineTunesShareWhatIsEqual) {
  const uint32_t one = group->admit(make({}), nullptr).value();
  const uint64_t one_bytes = group->weight_bytes();
  group->release(one);
  const auto slots =
      admit({make({}), make({.tuned_layers = {2, 3}, .seed = 5}), make({.seed = 7})});
  for (const auto& slot : slots) ASSERT_TRUE(slot) << slot.error().message;
  EXPECT_LT(group->weight_bytes(), 2 * one_bytes);
  EXPECT_EQ(group->model(*slots[0])->weight_slot, group->model(*slots[2])->weight_slot);
}

TEST_F(ParallelAdmission, ModelsWaitForAFailedOneAndLoad) {
  const std::string good = make({}), bad = copy(good);
  std::vector<Result<uint32_t>> slots;
  std::atomic<int> calls{0};
  std::thread other;
  const auto failing = group->admit(bad, [&](const std::string& stage, double) {
    if (!stage.starts_with("packing") || calls++ > 0) return;
    other = std::thread([&] { slots.push_back(group->admit(good, nullptr)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(slots.empty()) << "it waits, because it may share these weights";
    throw std::runtime_error("the load is cancelled");
  });
  EXPECT_FALSE(failing);
  ASSERT_TRUE(other.joinable());
  other.join();
  ASSERT_EQ(slots.size(), 1u);
  ASSERT_TRUE(slots[0]) << slots[0].error().message;
  EXPECT_EQ(group->num_tenants(), 1u);
}

TEST_F(ParallelAdmission, ModelsThatFitOnlyAloneAreNotLoadedTogether) {
  const std::string a = make({.tuned_layers = {0, 1, 2, 3}, .has_own_words = true, .seed = 1});
  const std::string b = make({.tuned_layers = {0, 1, 2, 3}, .has_own_words = true, .seed = 2});
  ASSERT_TRUE(group->admit(a, nullptr));
  const size_t weights = group->weight_bytes(), workspace = group->workspace_bytes();
  // The workspace, one model, and less than the memory that a second one needs.
  size_t limit = workspace + weights;
  for (;; limit += weights / 4) {
    ASSERT_LT(limit, workspace + 20 * weights);
    make_group(limit);
    if (group && group->admit(a, nullptr)) break;
  }
  make_group(limit);
  const auto slots = admit({a, b});
  EXPECT_EQ(slots[0].has_value() + slots[1].has_value(), 1);
  for (const auto& slot : slots) {
    if (slot) continue;
    EXPECT_EQ(slot.error().code, Code::kResourceExhausted);
    EXPECT_NE(slot.error().message.find("raise device.memory"), std::string::npos)
        << slot.error().message;
  }
}

TEST(LoadMemory, HoldsWhatLoadsNeed) {
  testing::PlainDevice device;
  device.state().available_bytes = 100;
  LoadMemory memory;
  auto first = memory.hold(device, 60);
  ASSERT_TRUE(first);
  EXPECT_EQ(memory.hold(device, 41).error(), 40u);
  device.state().available_bytes = 60;  // the load has taken some
  first->reduce(40);
  EXPECT_EQ(memory.hold(device, 41).error(), 40u);
  {
    const auto second = memory.hold(device, 40);
    EXPECT_TRUE(second);
    EXPECT_EQ(memory.hold(device, 1).error(), 0u);
  }
  first->reduce(1000);
  EXPECT_TRUE(memory.hold(device, 60));
}

}  // namespace
}  // namespace itif::runtime
