// Slices that are contexts of MPS: when there are such, and what belongs to each.
#include "slices_fixture.h"

namespace itif::device {
namespace {

class MpsSlices : public Slices {
 protected:
  MpsSlices() { EXPECT_TRUE(open(kHopper, "mps")); }
  std::string refusal(const simt::DeviceOptions& machine, const std::string& attention = "itif") {
    const Status opened = open(machine, "mps", attention);
    if (opened) return "opened";
    EXPECT_EQ(opened.error().code, Code::kUnsupported);
    return opened.error().message;
  }
};

TEST_F(MpsSlices, AreNineContextsInFourSteps) {
  EXPECT_EQ(device_->info().slices, "mps");
  EXPECT_EQ(device_->info().slice_steps, 4u);
  EXPECT_EQ(device_->info().division, Division::kProcessors);
  const uint64_t before = simt::counts().contexts_made;
  ASSERT_TRUE(open(kHopper, "mps"));
  EXPECT_EQ(simt::counts().contexts_made, before + 9);
}

// ---- The choice of a kind ----

TEST_F(MpsSlices, AreUsedIfTheDriverLacksGreenContexts) {
  ASSERT_TRUE(open(kHopperWithoutGreenContexts));
  EXPECT_EQ(device_->info().slices, "mps");
  ASSERT_TRUE(open(kHopper));
  EXPECT_EQ(device_->info().slices, "green-contexts");
}

TEST_F(MpsSlices, NeedAnMpsServer) {
  simt::DeviceOptions machine = kHopper;
  machine.has_mps = false;
  for (const bool admits : {false, true}) {
    machine.admits_limits_without_mps = admits;
    const std::string why = refusal(machine);
    EXPECT_NE(why.find("slices mps cannot be used"), std::string::npos) << why;
    EXPECT_NE(why.find("no client of an MPS server"), std::string::npos) << why;
    EXPECT_NE(why.find("nvidia-cuda-mps-control"), std::string::npos) << why;
  }
}

TEST_F(MpsSlices, NeedADriverThatLimitsThem) {
  simt::DeviceOptions machine = kHopper;
  machine.mps_limits = false;
  const std::string why = refusal(machine);
  EXPECT_NE(why.find("of 132 multiprocessors"), std::string::npos) << why;
}

TEST_F(MpsSlices, NeedMemoryThatBelongsToNoContext) {
  simt::DeviceOptions machine = kHopper;
  machine.has_memory_pools = false;
  const std::string why = refusal(machine);
  EXPECT_NE(why.find("memory pools"), std::string::npos) << why;
}

TEST_F(MpsSlices, AreRefusedWithAttentionByCudnn) {
  const std::string why = refusal(kHopper, "cudnn");
  EXPECT_NE(why.find("attention cudnn"), std::string::npos) << why;
  ASSERT_TRUE(open(kHopperWithoutGreenContexts, "auto", "cudnn"));
  EXPECT_EQ(device_->info().slices, "priorities");
}

TEST_F(MpsSlices, TakeFewerStepsIfThereIsNoMemoryForAllContexts) {
  simt::DeviceOptions machine = kHopper;
  machine.max_mps_contexts = 8;
  ASSERT_TRUE(open(machine, "mps"));
  EXPECT_EQ(device_->info().slice_steps, 2u);
  {
    Group a(*device_, 50);
    EXPECT_EQ(places_of(a, 32).count, 66u);
  }
  machine.max_mps_contexts = 1;
  const std::string why = refusal(machine);
  EXPECT_NE(why.find("out of memory"), std::string::npos) << why;
}

TEST_F(MpsSlices, GiveWayToPrioritiesIfTheServerIsGoneAfterAReset) {
  ASSERT_TRUE(open(kHopperWithoutGreenContexts));
  ASSERT_EQ(device_->info().slices, "mps");
  simt::set_device(kHopperWithoutContexts);
  ASSERT_TRUE(device_->reset());
  EXPECT_EQ(device_->info().slices, "priorities");
  Group a(*device_, 50);
  EXPECT_EQ(places_of(a, 32).num, 1u);
}

// ---- What belongs to a context ----

TEST_F(MpsSlices, TakeNoMemoryOnceTheDeviceIsOpen) {
  ASSERT_TRUE(open(kHopper, "none"));
  const size_t without = device_->info().memory_bytes;
  ASSERT_TRUE(open(kHopper, "mps"));
  EXPECT_LT(device_->info().memory_bytes, without) << "measured with all contexts";
  const uint64_t made = simt::counts().contexts_made;
  Group a(*device_, 25), b(*device_, 75);
  for (const double percent : {25.0, 50.0, 75.0}) {
    a.stream().set_percent(percent);
    a.expect_right(a.run(32));
    b.expect_right(b.run(32));
  }
  EXPECT_EQ(simt::counts().contexts_made, made);
}

TEST_F(MpsSlices, AChangeOfTheShareMakesAllThatTheFirstBatchNeeds) {
  Group a(*device_, 25);
  a.expect_right(a.run(32));
  const simt::Counts before = simt::counts();
  a.stream().set_percent(50);
  const simt::Counts changed = simt::counts();
  EXPECT_GT(changed.device_waits, before.device_waits) << "cuBLAS handles are made";
  EXPECT_GT(changed.streams_made, before.streams_made);
  EXPECT_EQ(places_of(a, 32).count, 66u);
  EXPECT_EQ(simt::counts().device_waits, changed.device_waits);
  EXPECT_EQ(simt::counts().streams_made, changed.streams_made);
}

TEST_F(MpsSlices, GreenContextsHaveTheHandlesOfTheirStream) {
  ASSERT_TRUE(open(kHopper, "green-contexts"));
  Group a(*device_, 25);
  const simt::Counts before = simt::counts();
  a.stream().set_percent(50);
  a.expect_right(a.run(32));
  EXPECT_EQ(simt::counts().device_waits, before.device_waits);
}

// The slices have equally many multiprocessors, but cuBLAS loads code for each context.
TEST_F(MpsSlices, WarmUpLoadsTheCodeOfEachContext) {
  Group before(*device_, 25), a(*device_, 50);
  a.launch_without_results(32);
  const auto aside = device_->allocate(64).value();  // by the primary context
  ASSERT_TRUE(a.stream().warm_up());
  EXPECT_EQ(a.stream().graphs().kept, 1u);
  const Places first = places_of(a, 32);
  before.stream().set_percent(50);
  a.launch_without_results(32);
  ASSERT_TRUE(a.stream().warm_up());
  EXPECT_EQ(a.stream().graphs().kept, 2u);
  EXPECT_EQ(a.stream().graphs().failures, 0u);
  const Places second = places_of(a, 32);
  EXPECT_EQ(first.count, second.count);
  EXPECT_NE(first.contexts, second.contexts);
}

// The results gathered so far are copied to larger memory, in the slice's context.
TEST_F(MpsSlices, ResultsMayOutgrowTheirMemory) {
  constexpr size_t kFew = 1024, kMany = size_t{1} << 20;  // of which only the few fit
  const auto stream = device_->make_stream({}, {.share = {.percent = 50}}).value();
  const auto few = device_->allocate(kFew * sizeof(float)).value();
  const auto many = device_->allocate(kMany * sizeof(float)).value();
  upload_numbers(*device_, few->data(), kFew);
  upload_numbers(*device_, many->data(), kMany, 1);
  std::vector<float> got_few(kFew), got_many(kMany);
  stream->copy_to_host(few->data(), few->bytes(), got_few.data());
  stream->launch(kernels::ToF32{
      .x = many->data(), .out = reinterpret_cast<float*>(many->data()), .count = kMany});
  stream->copy_to_host(many->data(), many->bytes(), got_many.data());
  const Status done = stream->synchronize();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(got_few, numbers(kFew));
  EXPECT_EQ(got_many, numbers(kMany, 1));
  EXPECT_EQ(stream->slice().processors, 66u);
}

// Control threads call the device, which makes the primary context current in theirs.
TEST_F(MpsSlices, CallsOfTheDeviceBetweenLaunchesChangeNothing) {
  Group a(*device_, 25);
  for (int turn = 0; turn < 4; ++turn) {
    a.launch(32);
    const auto aside = device_->allocate(64).value();
    upload(*device_, aside->data(), std::vector<float>(16, 1));
    EXPECT_TRUE(a.stream().synchronize());
    const Places places = places_of(a, 32);
    EXPECT_EQ(places.num, 1u);
    EXPECT_EQ(places.count, 34u);
  }
}

}  // namespace
}  // namespace itif::device
