// Gathers pixels that are scattered over packets into rows of a matrix, in one pass. A thread
// handles whole rows of patches. Each pixel row of a patch is first copied out of its pieces: they
// may end anywhere, and whole-vector loads must not read past them.
#include <cstring>

#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/gather_patches.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/activation-inl.h"

#ifndef ITIF_KERNELS_HOST_GATHER_PATCHES_ONCE_
#define ITIF_KERNELS_HOST_GATHER_PATCHES_ONCE_
namespace itif::kernels::host {

// Reads a message's bytes at ascending offsets.
class PieceReader {
 public:
  explicit PieceReader(std::span<const BytePiece> pieces) : pieces_(pieces) {}

  // REQUIRES: offset is at or after the end of the last read, and the pieces hold all requested
  // bytes.
  void read(size_t offset, size_t bytes, uint8_t* out) {
    while (offset >= first_ + pieces_[piece_].bytes) first_ += pieces_[piece_++].bytes;
    for (;;) {
      const size_t at = offset - first_;
      const size_t here = std::min<size_t>(bytes, pieces_[piece_].bytes - at);
      std::memcpy(out, pieces_[piece_].data + at, here);
      bytes -= here;
      if (bytes == 0) return;
      out += here;
      offset += here;
      first_ += pieces_[piece_++].bytes;
    }
  }

 private:
  std::span<const BytePiece> pieces_;
  size_t piece_ = 0;
  size_t first_ = 0;  // offset of pieces_[piece_]
};

}  // namespace itif::kernels::host
#endif

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

using F32 = hn::ScalableTag<float>;

HWY_INLINE void Load3(F32 d, const uint8_t* from, hn::Vec<F32>& r, hn::Vec<F32>& g,
                      hn::Vec<F32>& b) {
  const hn::Rebind<uint8_t, F32> d8;
  const hn::RebindToSigned<F32> di;
  hn::Vec<decltype(d8)> r8, g8, b8;
  hn::LoadInterleaved3(d8, from, r8, g8, b8);
  r = hn::ConvertTo(d, hn::PromoteTo(di, r8));
  g = hn::ConvertTo(d, hn::PromoteTo(di, g8));
  b = hn::ConvertTo(d, hn::PromoteTo(di, b8));
}
HWY_INLINE void Load3(F32 d, const float* from, hn::Vec<F32>& r, hn::Vec<F32>& g, hn::Vec<F32>& b) {
  hn::LoadInterleaved3(d, from, r, g, b);
}

// Transposes one pixel row of a patch, [patch, channels], to [channels] runs of `patch` values,
// `plane` apart. May read whole vectors past the row's values.
template <class T, class Value>
HWY_INLINE void Spread(const Value* HWY_RESTRICT row, uint32_t patch, uint32_t channels,
                       const float* scale, const float* shift, size_t plane, T* out) {
  const F32 d;
  if (channels == 3) {
    const auto channel = [&](auto part, hn::Vec<F32> v, size_t c, size_t i, size_t n) HWY_ATTR {
      part.store(d, hn::MulAdd(v, hn::Set(d, scale[c]), hn::Set(d, shift[c])), out + c * plane + i,
                 n);
    };
    ForLanes(d, patch, [&](auto part, size_t i, size_t n) HWY_ATTR {
      hn::Vec<F32> r, g, b;
      Load3(d, row + 3 * i, r, g, b);
      channel(part, r, 0, i, n);
      channel(part, g, 1, i, n);
      channel(part, b, 2, i, n);
    });
    return;
  }
  HWY_ALIGN float values[kMaxPatchRow];
  for (uint32_t c = 0; c < channels; ++c) {
    for (uint32_t i = 0; i < patch; ++i)
      values[i] = static_cast<float>(row[size_t{i} * channels + c]);
    ForLanes(d, patch, [&](auto part, size_t i, size_t n) HWY_ATTR {
      const auto v = part.load(d, values + i, n);
      part.store(d, hn::MulAdd(v, hn::Set(d, scale[c]), hn::Set(d, shift[c])), out + c * plane + i,
                 n);
    });
  }
}

// Gathers rows of patches [begin, end) of the batch, numbered image by image from top to bottom.
template <class T>
void PatchRows(const GatherPatches& args, uint32_t begin, uint32_t end) {
  constexpr size_t kSlack = 3 * hn::MaxLanes(F32()) * sizeof(float);
  HWY_ALIGN uint8_t row[kMaxPatchRow * sizeof(float) + kSlack];
  float identity[2 * kMaxPatchRow];
  const float* zeros = nullptr;
  const uint32_t across = args.width / args.patch, down = args.height / args.patch;
  const size_t plane = size_t{args.patch} * args.patch;
  for (uint32_t band = begin; band < end; ++band) {
    const ImagePixels& image = args.images[band / down];
    const uint32_t band_y = band % down;
    const float* scale = image.scale;
    const float* shift = image.shift;
    if (scale == nullptr) {
      if (zeros == nullptr) {
        std::fill_n(identity, args.channels, 1.0f);
        std::fill_n(identity + args.channels, args.channels, 0.0f);
        zeros = identity + args.channels;
      }
      scale = identity;
      shift = zeros;
    }
    PieceReader reader(image.pieces);
    const size_t value_bytes = image.value_bytes;
    for (uint32_t y = 0; y < args.patch; ++y) {
      for (uint32_t x = 0; x < across; ++x) {
        const size_t pixel = (size_t{band_y} * args.patch + y) * args.width + x * args.patch;
        reader.read(image.skip_bytes + pixel * args.channels * value_bytes,
                    size_t{args.patch} * args.channels * value_bytes, row);
        T* out = static_cast<T*>(args.out) +
                 (size_t{image.first_row} + band_y * across + x) * args.channels * plane +
                 size_t{y} * args.patch;
        if (value_bytes == 1)
          Spread(row, args.patch, args.channels, scale, shift, plane, out);
        else
          Spread(reinterpret_cast<const float*>(row), args.patch, args.channels, scale, shift,
                 plane, out);
      }
    }
  }
}

void PatchRowsF32(const GatherPatches& args, uint32_t begin, uint32_t end) {
  PatchRows<float>(args, begin, end);
}
void PatchRowsBf16(const GatherPatches& args, uint32_t begin, uint32_t end) {
  PatchRows<Bf16>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(PatchRowsF32);
HWY_EXPORT(PatchRowsBf16);

void run(const GatherPatches& args, const HostLaunch& launch) noexcept {
  const auto bands = static_cast<uint32_t>(args.images.size()) * (args.height / args.patch);
  const auto run = launch.activation == DType::kBF16 ? HWY_DYNAMIC_DISPATCH(PatchRowsBf16)
                                                     : HWY_DYNAMIC_DISPATCH(PatchRowsF32);
  parallel_rows(launch, bands, 1, [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
