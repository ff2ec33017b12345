#include "device/cuda/memory/pixel_plan.h"

namespace itif::device::cuda {

void PixelPlan::clear() noexcept {
  images_.clear();
  pieces_.clear();
  scales_.clear();
}

bool PixelPlan::add(const kernels::ImagePixels& image, uint32_t channels, HostReads& reads) {
  kernels::cuda::PixelImage made{.first_piece = static_cast<uint32_t>(pieces_.size()),
                                 .skip_bytes = image.skip_bytes,
                                 .value_bytes = image.value_bytes,
                                 .first_row = image.first_row,
                                 .first_scale = ~0u};
  uint32_t begin = 0;
  for (const BytePiece& piece : image.pieces) {
    if (piece.bytes == 0) continue;
    pieces_.push_back({reads.readable(piece.data, piece.bytes), begin, piece.bytes});
    if (pieces_.back().data == nullptr) return false;
    begin += piece.bytes;
  }
  made.num_pieces = static_cast<uint32_t>(pieces_.size()) - made.first_piece;
  if (image.scale != nullptr) {
    made.first_scale = static_cast<uint32_t>(scales_.size());
    scales_.insert(scales_.end(), image.scale, image.scale + channels);
    scales_.insert(scales_.end(), image.shift, image.shift + channels);
  }
  images_.push_back(made);
  return true;
}

}  // namespace itif::device::cuda
