#include "model/image_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace itif::model {
namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;  // of coefficients: 8 bits of value, 2 of headroom

struct Kernel {
  double (*value)(double x);
  double support;
};

double box(double x) {
  return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}
double bilinear(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}
double hamming(double x) {
  x = std::abs(x);
  if (x == 0.0) return 1.0;
  if (x >= 1.0) return 0.0;
  x = x * std::numbers::pi;
  return std::sin(x) / x * (0.54f + 0.46f * std::cos(x));
}
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}
double sinc(double x) {
  if (x == 0.0) return 1.0;
  x = x * std::numbers::pi;
  return std::sin(x) / x;
}
double lanczos(double x) {
  return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

Kernel kernel_of(ResizeFilter filter) {
  switch (filter) {
    case ResizeFilter::kLanczos: return {lanczos, 3.0};
    case ResizeFilter::kBicubic: return {bicubic, 2.0};
    case ResizeFilter::kBox: return {box, 0.5};
    case ResizeFilter::kHamming: return {hamming, 1.0};
    default: return {bilinear, 1.0};
  }
}

std::byte clip(int32_t sum) {
  return static_cast<std::byte>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

}  // namespace

void PictureResizer::Axis::build(uint32_t from, uint32_t to, ResizeFilter filter) {
  const Kernel kernel = kernel_of(filter);
  const double scale = static_cast<double>(from) / to;
  const double filter_scale = std::max(scale, 1.0);
  const double support = kernel.support * filter_scale;
  length = static_cast<uint32_t>(std::ceil(support)) * 2 + 1;
  first.resize(to);
  count.resize(to);
  coefficients.assign(size_t{to} * length, 0);
  std::vector<double> weights(length);
  for (uint32_t i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const double inverse = 1.0 / filter_scale;
    const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), static_cast<int>(from));
    double sum = 0.0;
    for (int j = 0; j < end - begin; ++j) {
      weights[static_cast<size_t>(j)] = kernel.value((j + begin - center + 0.5) * inverse);
      sum += weights[static_cast<size_t>(j)];
    }
    first[i] = static_cast<uint32_t>(begin);
    count[i] = static_cast<uint32_t>(end - begin);
    for (uint32_t j = 0; j < count[i]; ++j) {
      const double weight = sum != 0.0 ? weights[j] / sum : weights[j];
      const double fixed = weight * (1 << kPrecisionBits);
      coefficients[size_t{i} * length + j] =
          static_cast<int32_t>(fixed + (weight < 0 ? -0.5 : 0.5));
    }
  }
}

void PictureResizer::nearest(std::span<const std::byte> from, PictureSize from_size,
                             PictureSize to_size, std::span<std::byte> to) {
  // Positions are accumulated as in Pillow, for the same rounding errors.
  const size_t pixel = from_size.channels;
  const auto positions = [](uint32_t in, uint32_t out, std::vector<uint32_t>& at) {
    const double step = static_cast<double>(in) / out;
    double x = step * 0.5;
    at.resize(out);
    for (uint32_t i = 0; i < out; ++i, x += step)
      at[i] = std::min(static_cast<uint32_t>(x), in - 1);
  };
  positions(from_size.width, to_size.width, axis_.first);
  positions(from_size.height, to_size.height, axis_.count);
  std::byte* out = to.data();
  for (uint32_t y = 0; y < to_size.height; ++y) {
    const std::byte* row = from.data() + size_t{axis_.count[y]} * from_size.width * pixel;
    for (uint32_t x = 0; x < to_size.width; ++x, out += pixel)
      std::memcpy(out, row + axis_.first[x] * pixel, pixel);
  }
}

void PictureResizer::resize(std::span<const std::byte> from, PictureSize from_size,
                            ResizeFilter filter, PictureSize to_size, std::span<std::byte> to) {
  if (filter == ResizeFilter::kNearest) return nearest(from, from_size, to_size, to);
  constexpr int32_t kHalf = 1 << (kPrecisionBits - 1);
  const size_t channels = from_size.channels;
  // Rows of the output's width.
  const std::byte* narrow = from.data();
  const size_t row_bytes = to_size.width * channels;
  if (from_size.width != to_size.width) {
    axis_.build(from_size.width, to_size.width, filter);
    const bool is_last = from_size.height == to_size.height;
    if (!is_last) between_.resize(from_size.height * row_bytes);
    std::byte* out = is_last ? to.data() : between_.data();
    narrow = out;
    for (uint32_t y = 0; y < from_size.height; ++y) {
      const std::byte* row = from.data() + size_t{y} * from_size.width * channels;
      for (uint32_t x = 0; x < to_size.width; ++x) {
        const int32_t* weights = &axis_.coefficients[size_t{x} * axis_.length];
        const std::byte* in = row + axis_.first[x] * channels;
        for (size_t c = 0; c < channels; ++c) {
          int32_t sum = kHalf;
          for (uint32_t j = 0; j < axis_.count[x]; ++j)
            sum += static_cast<int32_t>(in[j * channels + c]) * weights[j];
          *out++ = clip(sum);
        }
      }
    }
    if (is_last) return;
  }
  if (from_size.height == to_size.height) {
    std::memcpy(to.data(), narrow, to_size.bytes());
    return;
  }
  axis_.build(from_size.height, to_size.height, filter);
  sums_.resize(row_bytes);
  for (uint32_t y = 0; y < to_size.height; ++y) {
    std::fill(sums_.begin(), sums_.end(), kHalf);
    for (uint32_t j = 0; j < axis_.count[y]; ++j) {
      const std::byte* in = narrow + (axis_.first[y] + j) * row_bytes;
      const int32_t weight = axis_.coefficients[size_t{y} * axis_.length + j];
      for (size_t i = 0; i < row_bytes; ++i) sums_[i] += static_cast<int32_t>(in[i]) * weight;
    }
    std::transform(sums_.begin(), sums_.end(), to.data() + y * row_bytes, clip);
  }
}

}  // namespace itif::model
