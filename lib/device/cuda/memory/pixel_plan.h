// Plan data of an image gather: the images' pieces, end to end, and their tenants' scales.
#pragma once

#include <vector>

#include "device/cuda/memory/host_memory.h"
#include "kernels/args.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

class PixelPlan {
 public:
  void clear() noexcept;
  // Returns false if there is no pinned memory for pixels that cannot be read in place.
  bool add(const kernels::ImagePixels& image, uint32_t channels, HostReads& reads);
  // Adds a dummy piece or scale if there is none, so that launches do not depend on that.
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
