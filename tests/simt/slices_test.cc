// The slices of a GPU: where groups' launches run, and what takes the place of green contexts.
#include "slices_fixture.h"

namespace itif::device {
namespace {

TEST_F(Slices, AreGreenContextsInEightSteps) {
  EXPECT_EQ(device_->info().slices, "green-contexts");
  EXPECT_EQ(device_->info().slice_steps, 8u);
  EXPECT_EQ(device_->info().division, Division::kProcessors);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SlicesByCount, ::testing::Values("green-contexts", "mps"),
                         [](const auto& one) {
                           return std::string(*one.param == 'm' ? "Mps" : "GreenContexts");
                         });

TEST_P(SlicesByCount, AllOfAGroupsLaunchesRunOnItsSlice) {
  Group a(*device_, 25), b(*device_, 75);
  const Places of_a = places_of(a, 32), of_b = places_of(b, 32);
  EXPECT_EQ(of_a.num, 1u) << "its launches, its GEMMs on other streams and its copies";
  EXPECT_EQ(of_b.num, 1u);
  EXPECT_EQ(of_a.count, count(25));
  EXPECT_EQ(of_b.count, count(75));
  EXPECT_TRUE((of_a.multiprocessors & of_b.multiprocessors).none());
  EXPECT_EQ(of_a.contexts != of_b.contexts, is_mps());
  EXPECT_EQ(a.stream().slice().processors, count(25));
}

TEST_P(SlicesByCount, AStreamWithoutAShareUsesTheWholeDevice) {
  Group all(*device_, 0), half(*device_, 50);
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(places_of(all, 32).count, 0u);
    EXPECT_EQ(places_of(half, 32).count, count(50));
  }
}

TEST_P(SlicesByCount, ALoneGroupCanHaveTheWholeDevice) {
  Group all(*device_, 100);
  EXPECT_EQ(places_of(all, 32).count, 0u);
  EXPECT_EQ(all.stream().slice().switches, 0u);
}

// Two to four groups, resized while the others run.
TEST_P(SlicesByCount, GroupsOfADeviceNeverOverlap) {
  const std::vector<std::vector<double>> all = {
      {50, 50}, {10, 90}, {30, 40, 30}, {90, 5, 5}, {25, 25, 25, 25}, {1, 1, 1, 97}, {100, 100}};
  for (const std::vector<double>& percents : all) {
    std::vector<std::unique_ptr<Group>> groups;
    for (size_t i = 0; i < percents.size(); ++i)
      groups.push_back(std::make_unique<Group>(*device_, 100.0 / percents.size()));
    for (size_t i = 0; i < percents.size(); ++i) groups[i]->stream().set_percent(percents[i]);
    simt::Multiprocessors used;
    std::set<uint64_t> contexts;
    size_t sum = 0;
    for (const auto& group : groups) {
      const Places places = places_of(*group, 16);
      EXPECT_EQ(places.num, 1u);
      EXPECT_GE(places.count, 16u);
      EXPECT_TRUE((used & places.multiprocessors).none());
      used |= places.multiprocessors;
      contexts.merge(std::set(places.contexts));
      sum += places.count;
    }
    EXPECT_GE(sum, 128u) << "all steps are in use";
    EXPECT_EQ(contexts.size(), is_mps() ? groups.size() : 1);
  }
}

TEST_P(SlicesByCount, AGroupThatGoesLeavesItsSliceToALaterOne) {
  Group stays(*device_, 50);
  for (int i = 0; i < 3; ++i) {
    Group goes(*device_, 50);
    EXPECT_EQ(places_of(goes, 16).count, count(50));
    EXPECT_EQ(places_of(stays, 16).count, count(50));
  }
}

TEST_P(SlicesByCount, AreThereAgainAfterAReset) {
  {
    Group a(*device_, 25);
    (void)a.run(32);
  }
  ASSERT_TRUE(device_->reset());
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).count, count(25));
}

TEST_P(SlicesByCount, AreThereAgainAfterAFault) {
  {
    Group a(*device_, 25);
    simt::fail_after(3);
    a.launch(32);
    EXPECT_FALSE(a.stream().synchronize());
  }
  ASSERT_TRUE(device_->reset());
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).count, count(25));
}

// The driver may divide the GPU in another way then, and info() shows it.
TEST_F(Slices, CanBeOthersAfterAReset) {
  const DeviceInfo& before = device_->info();
  EXPECT_EQ(before.slice_steps, 8u);
  simt::set_device(kHopperWithoutContexts);
  ASSERT_TRUE(device_->reset());
  EXPECT_EQ(device_->info().slices, "priorities");
  EXPECT_EQ(device_->info().slice_steps, 6u);
  EXPECT_EQ(device_->info().division, Division::kPriority);
  EXPECT_EQ(device_->info().memory_bytes, before.memory_bytes);
  EXPECT_EQ(before.slices, "green-contexts") << "other threads may still read it";
  Group small(*device_, 20), large(*device_, 70);
  EXPECT_EQ(places_of(small, 32).priority, 0);
  EXPECT_EQ(places_of(large, 32).priority, -1);
}

TEST_F(Slices, TakeFewerStepsIfTheDriverMakesFewContexts) {
  simt::DeviceOptions machine = kHopper;
  machine.max_green_contexts = 20;
  ASSERT_TRUE(open(machine));
  EXPECT_EQ(device_->info().slice_steps, 4u);
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).multiprocessors.count(), 32u);
}

TEST_F(Slices, HaveUnequalStepsIfPartitionsDoNotDivideEvenly) {
  ASSERT_TRUE(open({.num_multiprocessors = 108, .least_partition = 4}));  // an A100: 27 partitions
  EXPECT_EQ(device_->info().slice_steps, 8u);
  Group a(*device_, 50), b(*device_, 50);
  EXPECT_EQ(places_of(a, 32).multiprocessors.count() + places_of(b, 32).multiprocessors.count(),
            108u);
}

// ---- Without contexts ----

TEST_F(Slices, ArePrioritiesWithoutGreenContextsAndMps) {
  ASSERT_TRUE(open(kHopperWithoutContexts));
  EXPECT_EQ(device_->info().slices, "priorities");
  EXPECT_EQ(device_->info().slice_steps, 6u);
  EXPECT_EQ(device_->info().division, Division::kPriority);
  Group small(*device_, 20), large(*device_, 70), equal(*device_, 20);
  EXPECT_EQ(places_of(small, 32).priority, 0);
  EXPECT_EQ(places_of(equal, 32).priority, 0);
  EXPECT_EQ(places_of(large, 32).priority, -1);
  EXPECT_TRUE(places_of(large, 32).multiprocessors.none());
  small.stream().set_percent(80);
  EXPECT_EQ(places_of(small, 32).priority, -2);
}

TEST_F(Slices, ArePrioritiesIfTheDeviceCannotBeSplit) {
  ASSERT_TRUE(open({.num_multiprocessors = 14, .least_partition = 8, .has_mps = false}));
  EXPECT_EQ(device_->info().slices, "priorities");
}

TEST_F(Slices, AreNoneWithoutEither) {
  ASSERT_TRUE(open({.has_green_contexts = false, .num_priorities = 1, .has_mps = false}));
  EXPECT_EQ(device_->info().slices, "none");
  EXPECT_EQ(device_->info().slice_steps, 0u);
  EXPECT_EQ(device_->info().division, Division::kNone);
  Group a(*device_, 25);
  EXPECT_EQ(places_of(a, 32).num, 1u);
}

TEST_F(Slices, CanBeChosen) {
  ASSERT_TRUE(open(kHopper, "priorities"));
  EXPECT_EQ(device_->info().slices, "priorities");
  ASSERT_TRUE(open(kHopper, "none"));
  EXPECT_EQ(device_->info().slices, "none");
  ASSERT_TRUE(open(kHopper, "green-contexts"));
  EXPECT_EQ(device_->info().slices, "green-contexts");
}

TEST_F(Slices, AreRefusedByNameIfTheMachineLacksThem) {
  const Status too_small =
      open({.num_multiprocessors = 14, .least_partition = 8}, "green-contexts");
  ASSERT_FALSE(too_small);
  EXPECT_EQ(too_small.error().code, Code::kUnsupported);
  EXPECT_NE(too_small.error().message.find("slices green-contexts cannot be used"),
            std::string::npos)
      << too_small.error().message;
  EXPECT_NE(too_small.error().message.find("14 multiprocessors"), std::string::npos);
  EXPECT_FALSE(open({.num_priorities = 1}, "priorities"));
  const Status unknown = open(kHopper, "mig");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("unknown slices 'mig'"), std::string::npos);
}

}  // namespace
}  // namespace itif::device
