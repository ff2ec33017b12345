// Measures the device memory that a node of a CUDA graph takes. The device counts 64 KiB for it
// (lib/device/cuda/graph/graphs.cc), measured with an old driver. tests/gpu runs this on a GPU;
// tools/gpu-check prints the figure.
#include <cuda_runtime.h>

#include <cstdio>

#include "device_fixture.h"

namespace itif::device {
namespace {

class GraphNodes : public CudaDevice {
 protected:
  static constexpr uint32_t kLaunches = 100;

  static size_t free_bytes() {
    size_t free = 0, all = 0;
    EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
    return free;
  }
  // Runs a batch, each of a number by another graph.
  void run(uint32_t batch) {
    for (uint32_t i = 0; i < kLaunches; ++i)
      stream_->launch(kernels::ToF32{
          .x = out_->data(), .out = reinterpret_cast<float*>(out_->data()), .count = 1 + batch});
    EXPECT_TRUE(stream_->synchronize());
  }
};

TEST_F(GraphNodes, TakeNoMoreMemoryThanIsCounted) {
  for (int turn = 0; turn < 3; ++turn) run(kIds - 1);
  const size_t before = free_bytes();
  for (uint32_t batch = 0; batch < kIds - 1; ++batch)
    for (int turn = 0; turn < 3; ++turn) run(batch);
  const size_t graphs = stream_->graphs().kept - 1;
  ASSERT_GT(graphs, 2u);
  const double per_node =
      static_cast<double>(before - free_bytes()) / static_cast<double>(graphs * kLaunches);
  std::printf("[  FIGURE  ] device memory of a CUDA graph's node: %.2f KiB (64 are counted)\n",
              per_node / 1024);
  EXPECT_LE(per_node, 64 << 10);
}

}  // namespace
}  // namespace itif::device
