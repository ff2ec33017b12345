// What a gather of images is shown on the device: their pieces, end to end, and their tenants' scales.
#pragma once

#include <vector>

#include "device/cuda/host_memory.h"
#include "kernels/args.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

class PixelPlan {
 public:
  void clear() noexcept;
  // False: there is no pinned memory for pixels that cannot be read where they are.
  bool add(const kernels::ImagePixels& image, uint32_t channels, HostReads& reads);
  // Whether there are pieces and scales does not show in what is launched.
  void fill() {
    if (pieces_.empty()) pieces_.emplace_back();
    if (scales_.empty()) scales_.push_back(0);
  }

  std::span<const kernels::cuda::PixelImage> images() const { return images_; }
  std::span<const kernels::cuda::PixelPiece> pieces() const { return pieces_; }
  std::span<const float> scales() const { return scales_; }

 private:
  std::vector<kernels::cuda::PixelImage> images_;
  std::vector<kernels::cuda::PixelPiece> pieces_;
  std::vector<float> scales_;
};

}  // namespace itif::device::cuda
