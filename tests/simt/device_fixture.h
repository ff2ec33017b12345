// A CUDA device with a stream that gathers token ids: the simulated one, or a GPU in tests/gpu.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "device/cuda/device.h"

namespace itif::device {

inline constexpr uint32_t kIds = 64;

class CudaDevice : public ::testing::Test {
 protected:
  CudaDevice() {
    open();
    for (uint32_t i = 0; i < kIds; ++i) ids()[i] = i;
  }
  void open() {
    auto opened = open_cuda_device({.kind = "cuda", .dtype = "f32"});
    if (!opened) throw std::runtime_error(opened.error().message);
    device_ = std::move(*opened);
    stream_ = device_->make_stream({.max_tokens = 256, .max_segments = 64}).value();
    out_ = device_->allocate(kIds * sizeof(int32_t)).value();
  }
  uint32_t* ids() { return reinterpret_cast<uint32_t*>(pages_.data()); }
  void gather() {
    const kernels::IdPiece piece{
        .data = pages_.data(), .num_ids = kIds, .first_row = 0, .id_bytes = 4};
    stream_->launch(kernels::GatherIds{.pieces = {&piece, 1},
                                       .ids = reinterpret_cast<int32_t*>(out_->data()),
                                       .vocab_size = 1000});
  }
  std::vector<int32_t> gathered() {
    std::vector<int32_t> got(kIds);
    stream_->copy_to_host(out_->data(), kIds * sizeof(int32_t), got.data());
    EXPECT_TRUE(stream_->synchronize());
    return got;
  }

  std::vector<std::byte> pages_ = std::vector<std::byte>(8192);
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> out_;
};

}  // namespace itif::device
