// The memory limit of a device whose memory other processes use, too.
#include "device/regained_memory.h"

#include <gtest/gtest.h>

#include "device/cuda/device.h"
#include "runtime.h"

namespace itif::device {
namespace {

constexpr size_t kMiB = 1 << 20;

class Regained : public ::testing::Test {
 protected:
  ~Regained() override { simt::set_used_elsewhere(0); }
  // Opens the device beside a process that uses so much of its 1024 MiB.
  void open_beside(size_t used_bytes, size_t limit_bytes = 0) {
    simt::set_used_elsewhere(used_bytes);
    device_ = open_cuda_device({.kind = "cuda", .dtype = "f32", .memory_limit_bytes = limit_bytes})
                  .value();
    memory_ = dynamic_cast<RegainedMemory*>(device_.get());
    ASSERT_NE(memory_, nullptr);
  }
  std::unique_ptr<Device> device_;
  RegainedMemory* memory_ = nullptr;
};

TEST_F(Regained, ALimitRisesByWhatOtherProcessesFree) {
  open_beside(0);
  const size_t alone = memory_->memory_bytes();
  EXPECT_EQ(alone, device_->info().memory_bytes);
  open_beside(600 * kMiB);
  const size_t beside = memory_->memory_bytes();
  EXPECT_LT(beside, alone - 300 * kMiB);
  EXPECT_EQ(memory_->regain_memory(), 0u);
  const auto most = device_->allocate(device_->available_bytes());
  ASSERT_TRUE(most);
  EXPECT_FALSE(device_->allocate(kMiB));

  simt::set_used_elsewhere(0);
  EXPECT_FALSE(device_->allocate(kMiB)) << "the limit is still the former one";
  EXPECT_EQ(memory_->regain_memory(), 0u) << "another process may take it again";
  const size_t regained = memory_->regain_memory();
  EXPECT_EQ(memory_->memory_bytes(), beside + regained);
  EXPECT_LE(memory_->memory_bytes(), alone);
  EXPECT_GT(memory_->memory_bytes(), alone - 32 * kMiB) << "what the buffer uses counts";
  EXPECT_EQ(device_->available_bytes(), regained);
  EXPECT_TRUE(device_->allocate(regained));
  EXPECT_FALSE(device_->allocate(regained + kMiB));
  EXPECT_EQ(memory_->regain_memory(), 0u);
}

TEST_F(Regained, NoLimitExceedsTheConfiguredOne) {
  open_beside(800 * kMiB, 300 * kMiB);
  EXPECT_LT(memory_->memory_bytes(), 300 * kMiB);
  simt::set_used_elsewhere(400 * kMiB);
  memory_->regain_memory();
  EXPECT_GT(memory_->regain_memory(), 0u);
  EXPECT_LE(memory_->memory_bytes(), 300 * kMiB);
  simt::set_used_elsewhere(0);
  for (int i = 0; i < 2; ++i) memory_->regain_memory();
  EXPECT_EQ(memory_->memory_bytes(), 300 * kMiB);
}

TEST_F(Regained, MemoryThatOthersTakeAgainDoesNotCount) {
  open_beside(600 * kMiB);
  const size_t before = memory_->memory_bytes();
  for (int i = 0; i < 3; ++i) {
    simt::set_used_elsewhere(100 * kMiB);
    EXPECT_EQ(memory_->regain_memory(), 0u);
    simt::set_used_elsewhere(600 * kMiB);
    EXPECT_EQ(memory_->regain_memory(), 0u);
  }
  EXPECT_EQ(memory_->memory_bytes(), before);
  // One frees 300 MiB, and takes 200 MiB again between two measurements.
  simt::set_used_elsewhere(300 * kMiB);
  EXPECT_EQ(memory_->regain_memory(), 0u);
  simt::set_used_elsewhere(500 * kMiB);
  const size_t regained = memory_->regain_memory();
  EXPECT_GT(regained, 50 * kMiB);
  EXPECT_LE(regained, 100 * kMiB);
}

TEST_F(Regained, NoLimitFallsIfOthersUseMore) {
  open_beside(0);
  const size_t before = memory_->memory_bytes();
  simt::set_used_elsewhere(600 * kMiB);
  EXPECT_EQ(memory_->regain_memory(), 0u);
  EXPECT_EQ(memory_->memory_bytes(), before);
  EXPECT_LE(device_->available_bytes(), 424 * kMiB) << "but the device has no more";
}

}  // namespace
}  // namespace itif::device
