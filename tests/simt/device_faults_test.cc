// Failures of the CUDA device, as the simulator produces them: a fault and the reset that follows,
// refused memory, a missing driver.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "device_fixture.h"
#include "runtime.h"

namespace itif::device {
namespace {

TEST_F(CudaDevice, FaultPersistsUntilReset) {
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  simt::fail_after(0);
  gather();
  const Status failed = stream_->synchronize();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInternal);
  gather();
  stream_->end_inputs();
  const Stream::Event event = stream_->record();
  EXPECT_TRUE(stream_->inputs_read(event)) << "nothing runs any more";
  EXPECT_FALSE(stream_->wait(event).status);
  EXPECT_FALSE(device_->allocate(64));

  const Status in_use = device_->reset();
  ASSERT_FALSE(in_use);
  EXPECT_EQ(in_use.error().code, Code::kUnavailable) << "it is not lost";
  EXPECT_NE(in_use.error().message.find("still in use"), std::string::npos)
      << in_use.error().message;
  stream_.reset();
  out_.reset();
  // Reset from the control thread: the thread that saw the fault keeps it as its last error.
  Status reset;
  std::thread([&] { reset = device_->reset(); }).join();
  ASSERT_TRUE(reset) << reset.error().message;
  stream_ = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
  stream_->attach_thread();
  out_ = device_->allocate(kIds * sizeof(int32_t)).value();
  gather();
  ids()[5] = 77;
  EXPECT_EQ(gathered()[5], 77) << "packets are registered again";
}

// A repeated commit of such a slot fails again and takes no memory.
TEST_F(CudaDevice, CommitFailsIfSlotCannotBeCleared) {
  const auto slab = device_->reserve_slab(100'000, 4).value();
  simt::fail_after(0);  // fails the memset that clears the slot
  for (int turn = 0; turn < 2; ++turn) EXPECT_FALSE(slab->commit(1));
  stream_.reset();
  (void)cudaDeviceReset();
  (void)cudaGetLastError();
}

// If the GPU cannot register packet memory, packets are copied first, at the start and after a
// reset.
TEST_F(CudaDevice, CopiesPacketsIfRegistrationFails) {
  const auto expect_copied = [&] {
    ids()[5] = 5;
    gather();
    ids()[5] = 77;
    EXPECT_EQ(gathered()[5], 5);
  };
  simt::set_device({.registers_memory = false});
  const Status refused = device_->register_host_memory(pages_.data(), pages_.size());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("OperatingSystem"), std::string::npos);
  expect_copied();
  simt::set_device({});
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  stream_.reset();
  out_.reset();
  simt::set_device({.registers_memory = false});
  const Status reset = device_->reset();
  simt::set_device({});
  ASSERT_TRUE(reset) << reset.error().message;
  stream_ = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
  out_ = device_->allocate(kIds * sizeof(int32_t)).value();
  expect_copied();
}

// Any control thread may reserve, fill and free slabs.
TEST_F(CudaDevice, AnyThreadMayUseSlabs) {
  std::unique_ptr<SlabMemory> slab;
  Status committed;
  std::thread([&] { slab = device_->reserve_slab(100'000, 4).value(); }).join();
  std::thread([&] { committed = slab->commit(1); }).join();
  EXPECT_TRUE(committed) << committed.error().message;
  const uint64_t before = simt::counts().live_device_bytes;
  std::thread([&] { slab->release(1); }).join();
  EXPECT_LT(simt::counts().live_device_bytes, before);
  ASSERT_TRUE(slab->commit(2));
  std::thread([&] { slab.reset(); }).join();
  EXPECT_LT(simt::counts().live_device_bytes, before);
}

TEST_F(CudaDevice, CommitSetsAccessOnce) {
  const auto slab = device_->reserve_slab(1'000'000, 4).value();
  const uint64_t before = simt::counts().access_changes;
  ASSERT_TRUE(slab->commit(1));
  EXPECT_EQ(simt::counts().access_changes - before, 1u);
}

size_t free_bytes() {
  size_t free = 0, all = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  return free;
}

// Slab memory belongs to no context: a reset does not free what a faulty device failed to release.
TEST_F(CudaDevice, FaultLeaksNoMemory) {
  stream_.reset();
  out_.reset();
  const size_t before = free_bytes();
  for (int turn = 0; turn < 2; ++turn) {
    SCOPED_TRACE(turn);
    auto slab = device_->reserve_slab(300'000, 8).value();
    for (const uint32_t slot : {1, 2, 5}) ASSERT_TRUE(slab->commit(slot));
    auto buffer = device_->allocate(1000).value();
    simt::fail_after(0);
    EXPECT_FALSE(device_->allocate(64));
    EXPECT_FALSE(slab->commit(3));
    slab->release(2);
    slab.reset();
    buffer.reset();
    const Status reset = device_->reset();
    ASSERT_TRUE(reset) << reset.error().message;
    EXPECT_EQ(free_bytes(), before);
  }
}

TEST_F(CudaDevice, ResetReportsUnreleasedMemory) {
  stream_.reset();
  out_.reset();
  const size_t before = free_bytes();
  auto slab = device_->reserve_slab(300'000, 8).value();
  ASSERT_TRUE(slab->commit(1));
  simt::set_device({.takes_back = false});
  slab.reset();
  for (int turn = 0; turn < 2; ++turn) {
    const Status reset = device_->reset();
    ASSERT_FALSE(reset);
    EXPECT_NE(reset.error().message.find("of its memory: `itifctl handover`"), std::string::npos)
        << reset.error().message;
  }
  simt::set_device({});
  const Status reset = device_->reset();
  ASSERT_TRUE(reset) << reset.error().message;
  EXPECT_EQ(free_bytes(), before);
}

// Other threads may ask for the available memory during a reset.
TEST_F(CudaDevice, ReportsAvailableMemoryDuringReset) {
  stream_.reset();
  out_.reset();
  const size_t before = device_->available_bytes();
  EXPECT_GT(before, 0u);
  std::atomic<bool> is_over{false};
  std::thread asks([&] {
    while (!is_over) EXPECT_EQ(device_->available_bytes(), before);
  });
  const Status reset = device_->reset();
  is_over = true;
  asks.join();
  EXPECT_TRUE(reset) << reset.error().message;
}

// Each reset reports what to do. Afterwards every call fails.
TEST_F(CudaDevice, ResetReportsPersistentFault) {
  simt::fail_after(0, true);
  gather();
  ASSERT_FALSE(stream_->synchronize());
  stream_.reset();
  out_.reset();
  for (int turn = 0; turn < 2; ++turn) {
    const Status reset = device_->reset();
    ASSERT_FALSE(reset);
    for (const char* part : {"Unavailable", "itifctl handover", "restart itifd"})
      EXPECT_NE(reset.error().message.find(part), std::string::npos) << reset.error().message;
    EXPECT_FALSE(device_->allocate(64));
    const auto slab = device_->reserve_slab(100'000, 4);
    EXPECT_TRUE(!slab || !(*slab)->commit(1));
    EXPECT_FALSE(device_->make_stream());
    EXPECT_FALSE(device_->prepare({.n = 16, .k = 16}, 16));
    EXPECT_EQ(device_->available_bytes(), 0u);
  }
  simt::set_device({});
  const Status reset = device_->reset();
  EXPECT_TRUE(reset) << reset.error().message;
}

// cuBLAS has a CUDA runtime of its own.
TEST_F(CudaDevice, ResetTriesCublas) {
  stream_.reset();
  out_.reset();
  simt::set_device({.blas_outlives_reset = false});
  const Status reset = device_->reset();
  simt::set_device({});
  ASSERT_FALSE(reset);
  EXPECT_NE(reset.error().message.find("cuBLAS does not work"), std::string::npos)
      << reset.error().message;
  EXPECT_NE(reset.error().message.find("restart itifd"), std::string::npos);
  EXPECT_TRUE(device_->reset());
}

TEST(OpenCuda, LeavesMemoryForTheDriver) {
  for (const size_t limit : {size_t{0}, size_t{1} << 40}) {
    const auto device =
        open_cuda_device({.kind = "cuda", .dtype = "f32", .memory_limit_bytes = limit}).value();
    const auto most = device->allocate(device->available_bytes());
    ASSERT_TRUE(most) << most.error().message;
    const auto more = device->allocate(1 << 20);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, Code::kResourceExhausted);
    EXPECT_GT(free_bytes(), simt::DeviceOptions{}.memory_bytes / 40);
  }
}

TEST(OpenCuda, ReportsMissingDriver) {
  simt::set_device({.is_there = false});
  const auto device = open_cuda_device({.kind = "cuda"});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, Code::kUnsupported);
  EXPECT_NE(device.error().message.find("Insufficient"), std::string::npos)
      << device.error().message;
  const auto fallback = open_device({.kind = "auto", .dtype = "f32"});
  ASSERT_TRUE(fallback);
  EXPECT_EQ((*fallback)->info().kind, "host");
  simt::set_device({});
  EXPECT_EQ(open_device({.kind = "auto", .dtype = "f32"}).value()->info().kind, "cuda");
}

// Each thread enters the device itself: without that it would use the first one.
TEST(OpenCuda, UsesTheGpuThatIsAskedFor) {
  simt::set_device({.ordinal = 1});
  EXPECT_FALSE(open_cuda_device({.kind = "cuda", .dtype = "f32"}));
  const auto beyond = open_cuda_device({.kind = "cuda", .ordinal = 2, .dtype = "f32"});
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find("there is no GPU 2: the machine has 2"), std::string::npos)
      << beyond.error().message;
  const auto not_on_host = open_device({.kind = "auto", .ordinal = 2, .dtype = "f32"});
  ASSERT_FALSE(not_on_host);
  EXPECT_NE(not_on_host.error().message.find("there is no GPU 2"), std::string::npos)
      << not_on_host.error().message;
  (void)cudaGetLastError();
  {
    const auto device = open_cuda_device({.kind = "cuda", .ordinal = 1, .dtype = "f32"}).value();
    std::thread([&device] {
      EXPECT_GT(device->available_bytes(), 0u);
      const std::array<float, 4> in = {1, 2, 3, 4};
      std::array<float, 4> out{};
      auto buffer = device->allocate(sizeof in).value();
      const TensorView view{reinterpret_cast<const std::byte*>(in.data()), DType::kF32, Shape({4})};
      ASSERT_TRUE(device->upload(view, DType::kF32, buffer->data()));
      const auto slab = device->reserve_slab(64, 2).value();
      EXPECT_TRUE(slab->commit(1));
      auto stream = device->make_stream().value();
      std::thread([&] {
        stream->attach_thread();
        stream->copy_to_host(buffer->data(), sizeof out, out.data());
        EXPECT_TRUE(stream->synchronize());
      }).join();
      EXPECT_EQ(out, in);
    }).join();
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
  simt::set_device({});
}

// The device is listed but cannot be used.
TEST(OpenCuda, ReportsUnusableDevice) {
  for (const auto& [device, cause] :
       {std::pair<simt::DeviceOptions, const char*>{{.is_free = false}, "Unavailable"},
        {{.has_virtual_memory = false}, "virtual memory"}}) {
    simt::set_device(device);
    const auto opened = open_cuda_device({.kind = "cuda"});
    const auto fallback = open_device({.kind = "auto", .dtype = "f32"});
    simt::set_device({});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::kUnsupported);
    EXPECT_NE(opened.error().message.find(cause), std::string::npos) << opened.error().message;
    ASSERT_TRUE(fallback) << fallback.error().message;
    EXPECT_EQ((*fallback)->info().kind, "host");
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the error is cleared";
  }
}

}  // namespace
}  // namespace itif::device
