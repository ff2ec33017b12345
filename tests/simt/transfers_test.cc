// Control's memory work: tenants come and go without making the GPU's streams wait.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "device_fixture.h"
#include "runtime.h"

namespace itif::device {
namespace {

class TransfersTest : public CudaDevice {
 protected:
  static constexpr GemmShape kShape = {.n = 64, .k = 96};

  // Does what adding and removing a tenant does to the device's memory.
  void come_and_go(SlabMemory& slab, uint32_t slot) {
    ASSERT_TRUE(slab.commit(slot));
    std::vector<float> weight(kShape.n * kShape.k, 1);
    const TensorView view{reinterpret_cast<const std::byte*>(weight.data()), DType::kF32,
                          Shape{kShape.n, kShape.k}};
    ASSERT_TRUE(device_->pack(kShape, {&view, 1}, slab.slab().at(slot)));
    const auto buffer = device_->allocate(1 << 20);
    ASSERT_TRUE(buffer);
    slab.release(slot);
  }
};

TEST_F(TransfersTest, TenantsComeAndGoWithoutPlainCalls) {
  const auto slab = device_->reserve_slab(device_->packed_bytes(kShape).value(), 4).value();
  const simt::Counts before = simt::counts();
  for (uint32_t slot = 0; slot < 4; ++slot) come_and_go(*slab, slot);
  const simt::Counts after = simt::counts();
  EXPECT_EQ(after.plain_allocations, before.plain_allocations);
  EXPECT_EQ(after.frees, before.frees);
  EXPECT_EQ(after.plain_copies, before.plain_copies);
  EXPECT_EQ(after.device_waits, before.device_waits);
  EXPECT_EQ(after.live_device_bytes, before.live_device_bytes);
}

TEST_F(TransfersTest, LargeCopiesPassThroughPinnedMemoryInParts) {
  std::vector<float> numbers((5 << 20) / sizeof(float) + 3);  // three parts
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 1013);
  const size_t bytes = numbers.size() * sizeof(float);
  const auto buffer = device_->allocate(bytes).value();
  const TensorView view{reinterpret_cast<const std::byte*>(numbers.data()), DType::kF32,
                        Shape{numbers.size()}};
  ASSERT_TRUE(device_->upload(view, DType::kF32, buffer->data()));
  std::vector<float> got(numbers.size());
  device_->download(buffer->data(), bytes, got.data());
  EXPECT_EQ(got, numbers);
}

TEST_F(TransfersTest, FreedMemoryIsTheDevicesAgain) {
  const size_t before = device_->available_bytes();
  auto buffer = device_->allocate(64 << 20).value();
  EXPECT_LE(device_->available_bytes(), before - (64 << 20));
  buffer.reset();
  EXPECT_EQ(device_->available_bytes(), before);
}

TEST_F(TransfersTest, WorkWithoutMemoryPools) {
  out_.reset();
  stream_.reset();
  device_.reset();
  simt::set_device({.has_memory_pools = false});
  open();
  const size_t before = device_->available_bytes();
  auto buffer = device_->allocate(1 << 20).value();
  buffer.reset();
  EXPECT_EQ(device_->available_bytes(), before);
  out_.reset();
  stream_.reset();
  device_.reset();
  simt::set_device({});
}

TEST_F(TransfersTest, OutOfMemoryIsReported) {
  const auto refused = device_->allocate(size_t{1} << 40);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
}

TEST_F(TransfersTest, CopyAgainAfterAReset) {
  out_.reset();
  stream_.reset();
  ASSERT_TRUE(device_->reset());
  const auto buffer = device_->allocate(64).value();
  const std::vector<float> numbers = {1, 2, 3};
  const TensorView view{reinterpret_cast<const std::byte*>(numbers.data()), DType::kF32, Shape{3}};
  ASSERT_TRUE(device_->upload(view, DType::kF32, buffer->data()));
  std::vector<float> got(3);
  device_->download(buffer->data(), 12, got.data());
  EXPECT_EQ(got, numbers);
}

}  // namespace
}  // namespace itif::device
