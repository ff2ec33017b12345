// Moves to other slices of a GPU between two batches, and the CUDA graphs of each slice.
// slice_moves_test.cc measures what a move costs.
#include <atomic>
#include <thread>

#include "slices_fixture.h"

namespace itif::device {
namespace {

// A batch reads the plan memory and writes the results of the one before it.
TEST_P(SlicesByCount, BatchesKeepTheirOrderAcrossMoves) {
  Group a(*device_, 50), b(*device_, 50);
  for (uint32_t turn = 0; turn < 40; ++turn) {
    a.stream().set_percent(turn % 2 == 0 ? 10 : 80);
    a.launch(8 + turn % 3 * 8);
    const Stream::Event first = a.stream().record();
    b.expect_right(b.run(24));
    a.stream().set_percent(turn % 2 == 0 ? 60 : 20);
    EXPECT_TRUE(a.stream().wait(first).status);
    a.expect_right(a.run(32));
  }
  EXPECT_GE(a.stream().slice().switches, is_mps() ? 39u : 79u);  // larger steps
}

// Each batch reads what the one before it has written, which is still in flight.
TEST_P(SlicesByCount, ABatchOnANewSliceFollowsTheOneBeforeIt) {
  Counter a(*device_, 30);
  a.expect_sums_on_changing_slices(60);
  EXPECT_EQ(a.stream().slice().switches, 60u);
  EXPECT_EQ(a.stream().graphs().kept, 3u) << "equal launches have a graph on each slice";
}

// Launch by launch: most of a batch can run before the machine ends the one before it.
TEST_P(SlicesByCount, LaunchesOnANewSliceFollowAllOnTheFormerOne) {
  Counter a(*device_, 30);
  a.stream().use_graphs(false);
  a.expect_sums_on_changing_slices(300);
}

TEST_P(SlicesByCount, EqualLaunchesReplayOnTheirOwnSlice) {
  Counter a(*device_, 30);
  const auto launches = [](size_t multiprocessors) {
    uint64_t sum = 0;
    for (const simt::LaunchedOn& one : simt::launched_on())
      if (count_of(one.place) == multiprocessors) sum += one.launches;
    return sum;
  };
  for (int turn = 0; turn < 8; ++turn) {
    a.stream().set_percent(turn % 2 == 0 ? 25 : 75);
    const uint64_t small = launches(count(25)), large = launches(count(75));
    float sum = 0;
    EXPECT_TRUE(a.stream().wait(a.add(sum)).status);
    EXPECT_EQ(launches(count(25)) > small, turn % 2 == 0) << turn;
    EXPECT_EQ(launches(count(75)) > large, turn % 2 == 1) << turn;
  }
  EXPECT_GE(a.stream().graphs().launches, 4u);
}

// A graph runs where it was captured. Each slice has its own, which are kept.
TEST_P(SlicesByCount, GraphsRunOnTheSliceOfTheBatch) {
  Group a(*device_, 25);
  for (int turn = 0; turn < 3; ++turn)
    for (const double percent : {25.0, 50.0}) {
      a.stream().set_percent(percent);
      for (int i = 0; i < 4; ++i) {
        const Places places = places_of(a, 32);
        EXPECT_EQ(places.num, 1u);
        EXPECT_EQ(places.count, count(static_cast<size_t>(percent)));
      }
    }
  EXPECT_EQ(a.stream().graphs().kept, 2u);
  EXPECT_GE(a.stream().graphs().launches, 18u);
  EXPECT_EQ(a.stream().graphs().failures, 0u);
}

TEST_P(SlicesByCount, WarmUpCapturesForTheSliceOfTheNextBatch) {
  Group a(*device_, 25);
  a.launch_without_results(32);
  ASSERT_TRUE(a.stream().warm_up());
  EXPECT_EQ(a.stream().graphs().kept, 1u);
  a.stream().set_percent(75);
  EXPECT_EQ(a.stream().slice().processors, count(25)) << "the move waits for the next batch";
  a.launch_without_results(32);
  ASSERT_TRUE(a.stream().warm_up());
  EXPECT_EQ(a.stream().slice().processors, count(75));
  EXPECT_EQ(a.stream().graphs().kept, 2u);
  EXPECT_EQ(a.stream().graphs().failures, 0u);
  EXPECT_EQ(places_of(a, 32).count, count(75));
  EXPECT_EQ(a.stream().graphs().launches, 1u) << "captured ahead";
}

// A load during a batch would wait until all groups' batches have ended. Contexts of MPS load code
// of their own.
TEST_P(SlicesByCount, WarmUpLoadsTheCodeForOtherSlicesOfItsContext) {
  Group a(*device_, 25);
  a.launch_without_results(32);
  ASSERT_TRUE(a.stream().warm_up());
  (void)a.run(32);
  const uint64_t before = simt::counts().loads;
  for (const double percent : {12.5, 50.0, 75.0, 100.0, 25.0}) {
    a.stream().set_percent(percent);
    a.expect_right(a.run(32));
  }
  EXPECT_GE(a.stream().slice().switches, 4u);
  if (!is_mps()) {
    EXPECT_EQ(simt::counts().loads, before);
  }
}

// A move costs the stream's thread two calls for the order, and a few of cuBLAS. It waits for
// nothing, and makes and frees nothing.
TEST_P(SlicesByCount, AMoveNeitherWaitsNorAllocates) {
  Group a(*device_, 25), b(*device_, 50);
  for (const double percent : {50.0, 25.0})
    for (int i = 0; i < 3; ++i) {
      a.stream().set_percent(percent);
      (void)a.run(32);
      (void)b.run(32);
    }
  a.stream().set_percent(50);
  const simt::Counts before = simt::counts();
  for (int i = 0; i < 10; ++i) {
    a.launch(32);
    const auto event = a.stream().record();
    EXPECT_TRUE(a.stream().wait(event).status);
    a.stream().set_percent(i % 2 == 0 ? 25 : 50);
  }
  const simt::Counts after = simt::counts();
  EXPECT_EQ(after.device_waits, before.device_waits);
  EXPECT_EQ(after.stream_waits, before.stream_waits);
  EXPECT_EQ(after.plain_copies, before.plain_copies);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.frees, before.frees);
  EXPECT_EQ(after.streams_made, before.streams_made) << "kept from the first time";
  EXPECT_GE(a.stream().slice().switches, 12u);
}

TEST_P(SlicesByCount, SharesChangeWhileBatchesRun) {
  Group a(*device_, 50), b(*device_, 50);
  std::atomic<bool> ends = false;
  std::thread control([&] {
    for (int i = 0; !ends; i = (i + 17) % 97) {
      a.stream().set_percent(1 + i);
      b.stream().set_percent(98 - i);
    }
  });
  std::thread other([&] {
    b.stream().attach_thread();
    for (int i = 0; i < 60; ++i) b.expect_right(b.run(8 + i % 25));
  });
  for (int i = 0; i < 60; ++i) a.expect_right(a.run(8 + i % 25));
  other.join();
  ends = true;
  control.join();
  EXPECT_EQ(a.stream().graphs().failures + b.stream().graphs().failures, 0u);
}

}  // namespace
}  // namespace itif::device
