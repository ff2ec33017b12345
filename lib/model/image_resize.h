// Resizes pictures of 8-bit channels as Pillow does, bit for bit; transformers' image processors
// call Pillow.
// Source: Pillow's src/libImaging/Resample.c (Geometry.c for the nearest pixel). Filters are
// separable, their support grows with the reduction, and coefficients are fixed-point. The
// horizontal pass comes first, and the image is rounded to 8 bits before the vertical pass. Pillow
// 13 does the vertical pass first if the height shrinks much more than the width, and then rounds
// differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace itif::model {

// Pillow's numbers, which preprocessor_config.json gives in `resample`.
enum class ResizeFilter : uint8_t {
  kNearest = 0,
  kLanczos = 1,
  kBilinear = 2,
  kBicubic = 3,
  kBox = 4,
  kHamming = 5
};

// [height, width, channels], row-major.
struct PictureSize {
  uint32_t height = 0, width = 0, channels = 0;
  size_t bytes() const { return size_t{height} * width * channels; }
};

// The longest side of a picture that can be resized.
inline constexpr uint32_t kMaxPictureSide = 8192;

// Reuses its working memory for the next picture. One thread at a time.
class PictureResizer {
 public:
  // REQUIRES: `from` holds from_size.bytes(), `to` to_size.bytes(); sides between 1 and
  // kMaxPictureSide; channels equal and 1 or 3. Throws std::bad_alloc.
  void resize(std::span<const std::byte> from, PictureSize from_size, ResizeFilter filter,
              PictureSize to_size, std::span<std::byte> to);

 private:
  // Output i of an axis is the sum of coefficients[i · length + j] times input first[i] + j.
  struct Axis {
    uint32_t length = 0;
    std::vector<uint32_t> first, count;
    std::vector<int32_t> coefficients;
    void build(uint32_t from, uint32_t to, ResizeFilter filter);
  };
  void nearest(std::span<const std::byte> from, PictureSize from_size, PictureSize to_size,
               std::span<std::byte> to);

  Axis axis_;
  std::vector<int32_t> sums_;       // one row of the vertical pass
  std::vector<std::byte> between_;  // after the horizontal pass
};

}  // namespace itif::model
