// A real GPU fault, which the simulator can only imitate: a kernel writes to an address without
// memory. It runs in a separate process, because it breaks the process's device for other tests.
#include <cstdio>

#include "../simt/device_fixture.h"

namespace itif::device {
namespace {

class CudaFault : public CudaDevice {
 protected:
  // Checks a GEMM by cuBLAS, whose own CUDA runtime must have noticed the reset.
  void multiply() {
    constexpr uint32_t kSize = 16;
    std::vector<float> ones(kSize * kSize, 1);
    const auto factors = device_->allocate(ones.size() * sizeof(float)).value();
    const auto product = device_->allocate(ones.size() * sizeof(float)).value();
    const TensorView view{reinterpret_cast<const std::byte*>(ones.data()), DType::kF32,
                          Shape{ones.size()}};
    ASSERT_TRUE(device_->upload(view, DType::kF32, factors->data()));
    const auto prepared =
        device_->prepare({.n = kSize, .k = kSize, .has_bias = false}, kSize).value();
    const kernels::RowRange all = {0, kSize, 0};
    stream_->launch(kernels::GroupedGemm{.a = factors->data(),
                                         .weights = {factors->data(), 0},
                                         .bias = {},
                                         .out = product->data(),
                                         .n = kSize,
                                         .k = kSize,
                                         .ranges = {&all, 1},
                                         .prepared = prepared.get()});
    std::vector<float> got(ones.size());
    stream_->copy_to_host(product->data(), got.size() * sizeof(float), got.data());
    ASSERT_TRUE(stream_->synchronize());
    EXPECT_EQ(got, std::vector<float>(ones.size(), kSize));
  }
  // The driver may refuse the GPU to this process from now on. The error then says what to do, and
  // every call fails.
  void expect_refused(const Status& reset) {
    EXPECT_NE(reset.error().message.find("itifctl handover"), std::string::npos);
    EXPECT_FALSE(device_->make_stream({.max_tokens = 256, .max_segments = 64}));
    EXPECT_FALSE(device_->allocate(64));
    const auto slab = device_->reserve_slab(100'000, 4);
    EXPECT_TRUE(!slab || !(*slab)->commit(1));
    const Status again = device_->reset();
    EXPECT_FALSE(again) << "the GPU is back after a second reset only";
  }
};

TEST_F(CudaFault, SticksUntilTheReset) {
  ASSERT_TRUE(device_->register_host_memory(pages_.data(), pages_.size()));
  const kernels::IdPiece piece{
      .data = pages_.data(), .num_ids = kIds, .first_row = 0, .id_bytes = 4};
  stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                     .ids = reinterpret_cast<int32_t*>(uintptr_t{1} << 20),
                                     .vocab_size = 1000});
  const Status failed = stream_->synchronize();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::kInternal) << failed.error().message;
  gather();
  EXPECT_FALSE(stream_->synchronize());
  EXPECT_FALSE(device_->allocate(64));

  EXPECT_FALSE(device_->reset()) << "while it is in use";
  stream_.reset();
  out_.reset();
  const Status reset = device_->reset();
  std::printf("the reset after the fault: %s\n",
              reset ? "the GPU works again" : reset.error().message.c_str());
  if (!reset) return expect_refused(reset);
  stream_ = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
  out_ = device_->allocate(kIds * sizeof(int32_t)).value();
  gather();
  ids()[5] = 77;
  EXPECT_EQ(gathered()[5], 77) << "packets are registered again";
  multiply();
}

}  // namespace
}  // namespace itif::device
