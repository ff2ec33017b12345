// A real GPU fault, which the simulator can only imitate: a kernel writes to an address without
// memory. It runs in a separate process, because it breaks the process's device for other tests.
#include "../simt/device_fixture.h"

namespace itif::device {
namespace {

class CudaFault : public CudaDevice {};

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
  ASSERT_TRUE(reset) << reset.error().message;
  stream_ = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
  out_ = device_->allocate(kIds * sizeof(int32_t)).value();
  gather();
  ids()[5] = 77;
  EXPECT_EQ(gathered()[5], 77) << "packets are registered again";
}

}  // namespace
}  // namespace itif::device
