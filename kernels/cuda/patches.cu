// Images: gathers pixels directly from packets in host memory into rows of patches, normalises
// them, and adds class tokens and positions to the patches' embeddings.
//
// A block handles a part of a row of patches that is contiguous in its image's message: several
// rows of pixels, or some of the patches if a row is too long. It requests all bus lines of the
// part at once, straight into shared memory without registers. Then it distributes the values to
// the patches; a thread makes as many values as one store takes.
#include "kernels/cuda/in_place.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/shared_memory.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256, kWarps = kThreads / kWarp;
constexpr uint32_t kTogether = 4;  // lines of a group
constexpr uint32_t kGroupBytes = kTogether * kBusLine;
constexpr uint32_t kValueBytes = sizeof(float);  // of the wider type
constexpr uint32_t kPartBytes = 24 << 10;        // holds a part as f32
static_assert(kMaxPatchRow * kValueBytes <= kPartBytes && kPartBytes < kSharedUnlessAllowed);

// How rows of patches are cut into parts. All images share the cut, whether their values have one
// byte or four.
struct Parts {
  uint32_t rows, patches;  // of a part
  uint32_t down, across;   // parts per row of patches
  // Shared memory of a part. Values are aligned to words as in the message.
  uint32_t bytes;
};
Parts parts_of(const GatherPatches& args) {
  const uint32_t patches = args.width / args.patch;
  const uint32_t row_bytes = args.width * args.channels * kValueBytes;
  const uint32_t patch_bytes = args.patch * args.channels * kValueBytes;
  if (row_bytes <= kPartBytes) {
    const uint32_t rows = div_up(args.patch, div_up(args.patch, kPartBytes / row_bytes));
    return {.rows = rows,
            .patches = patches,
            .down = div_up(args.patch, rows),
            .across = 1,
            .bytes = rows * row_bytes + kBusWord};
  }
  const uint32_t together = kPartBytes / patch_bytes;
  return {.rows = 1,
          .patches = together,
          .down = args.patch,
          .across = div_up(patches, together),
          .bytes = together * patch_bytes + kBusWord};
}

// Returns the piece of an image that holds byte `begin` of its message. All lanes of the warp must
// call it.
__device__ uint32_t piece_that_holds(const PixelPiece* pieces, uint32_t num_pieces,
                                     uint32_t begin) {
  uint32_t first = 0, count = num_pieces;
  while (count > 1) {
    const uint32_t step = (count + kWarp - 1) / kWarp, at = threadIdx.x % kWarp * step;
    const bool is_ahead = at < count && pieces[first + at].begin <= begin;
    const uint32_t skipped = (__popc(__ballot_sync(kAllLanes, is_ahead)) - 1) * step;
    first += skipped;
    count = min(step, count - skipped);
  }
  return first;
}

// The bytes of a piece that belong to a part. Offsets count from the first of them. Offsets before
// it wrap around.
struct Run {
  InPlace piece;
  uint32_t first, bytes;  // of the piece
  uint8_t* to;

  __device__ bool holds_word(uint32_t at) const { return at < bytes && bytes - at >= kBusWord; }
  // Returns the word at `at`. Bytes outside the run are 0.
  __device__ uint32_t word(uint32_t at) const {
    if (holds_word(at)) return piece.at<uint32_t>(first + at);
    uint32_t word = 0;
    for (uint32_t b = 0; b < kBusWord; ++b)
      if (at + b < bytes) word |= uint32_t{piece.at<uint8_t>(first + at + b)} << 8 * b;
    return word;
  }
  __device__ void put(uint32_t at, uint32_t word) const {
    for (uint32_t b = 0; b < kBusWord; ++b)
      if (at + b < bytes) to[at + b] = static_cast<uint8_t>(word >> 8 * b);
  }
};

// Copies bytes [begin, end) of an image's message. Whole words arrive asynchronously:
// wait_for_words().
__device__ void bring_bytes(const PixelPiece* pieces, uint32_t num_pieces, uint32_t begin,
                            uint32_t end, uint8_t* to) {
  const uint32_t warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  uint32_t taken = 0;  // line groups of the pieces so far; warps take groups round-robin
  uint32_t p = piece_that_holds(pieces, num_pieces, begin);
  PixelPiece next = pieces[p];
  while (next.begin < end) {
    const PixelPiece piece = next;
    if (++p < num_pieces)
      next = pieces[p];
    else
      next.begin = end;
    const uint32_t first = max(begin, piece.begin), last = min(end, piece.begin + piece.bytes);
    const Run run{.piece = InPlace(piece.data, piece.bytes),
                  .first = first - piece.begin,
                  .bytes = last - first,
                  .to = to + (first - begin)};
    const uint32_t in_line = run.piece.in_line(run.first);
    const bool stands_alike = (in_line - reinterpret_cast<uintptr_t>(run.to)) % kBusWord == 0;
    const bool has_parts_of_words = (in_line | run.bytes) % kBusWord != 0;
    const uint32_t groups = (in_line + run.bytes + kGroupBytes - 1) / kGroupBytes;
    for (uint32_t group = (warp - taken) % kWarps; group < groups; group += kWarps) {
      const uint32_t at = group * kGroupBytes + lane * kBusWord - in_line;
      if (stands_alike) {
#pragma unroll
        for (uint32_t l = 0; l < kTogether; ++l) {
          const uint32_t word = at + l * kBusLine;
          if (run.holds_word(word)) run.piece.bring_word(run.first + word, run.to + word);
        }
        if (!has_parts_of_words) continue;
      }
      uint32_t words[kTogether];
#pragma unroll
      for (uint32_t l = 0; l < kTogether; ++l) {
        const uint32_t word = at + l * kBusLine;
        if (!stands_alike || !run.holds_word(word)) words[l] = run.word(word);
      }
#pragma unroll
      for (uint32_t l = 0; l < kTogether; ++l) {
        const uint32_t word = at + l * kBusLine;
        if (!stands_alike || !run.holds_word(word)) run.put(word, words[l]);
      }
    }
    taken += groups;
  }
}

// value / divisor, of inverse = 1 / divisor. Exact below 2^22.
__device__ uint32_t quotient(uint32_t value, float inverse) {
  return static_cast<uint32_t>((static_cast<float>(value) + 0.5f) * inverse);
}

template <class T, uint32_t kWidth>
struct alignas(kWidth * sizeof(T)) Values {
  T values[kWidth];
};

// The target of a part's values.
struct Target {
  uint32_t rows, patches;  // of the part
  uint32_t row;            // its first row of pixels, within its patches
  size_t first_row;        // of out, for its first patch
};
// scale: [channels], then the shifts; nullptr: values are not scaled.
template <class T, uint32_t kWidth, class Value>
__device__ void spread(const GatherPatches& args, const Target& target, const float* scale,
                       const Value* values) {
  const uint32_t patch = args.patch, channels = args.channels, packs = patch / kWidth;
  const float of_packs = 1.0f / packs, of_rows = 1.0f / target.rows, of_channels = 1.0f / channels;
  const size_t plane_values = size_t{patch} * patch;
  T* const out = static_cast<T*>(args.out) + target.first_row * channels * plane_values;
  for (uint32_t i = threadIdx.x; i < target.patches * channels * target.rows * packs;
       i += kThreads) {
    const uint32_t row = quotient(i, of_packs), plane = quotient(row, of_rows);
    const uint32_t column = quotient(plane, of_channels), channel = plane - column * channels;
    const uint32_t x = (i - row * packs) * kWidth, y = row - plane * target.rows;
    const Value* from = values + (y * args.width + column * patch + x) * channels + channel;
    Values<T, kWidth> made;
    float read[kWidth];
#pragma unroll
    for (uint32_t v = 0; v < kWidth; ++v) read[v] = static_cast<float>(from[v * channels]);
    if (scale != nullptr) {
      const float factor = __ldg(scale + channel), shift = __ldg(scale + channels + channel);
#pragma unroll
      for (uint32_t v = 0; v < kWidth; ++v) read[v] = __fmaf_rn(read[v], factor, shift);
    }
#pragma unroll
    for (uint32_t v = 0; v < kWidth; ++v) made.values[v] = from_float<T>(read[v]);
    *reinterpret_cast<Values<T, kWidth>*>(out + plane * plane_values + (target.row + y) * patch +
                                          x) = made;
  }
}

template <class T, uint32_t kWidth>
__global__ void __launch_bounds__(kThreads)
    gather_patches_kernel(GatherPatches args, Parts parts, const PixelImage* images,
                          const PixelPiece* pieces, const float* scales) {
  SharedMemory shared;
  uint8_t* bytes = shared.take<uint8_t>(parts.bytes);
  const PixelImage image = images[blockIdx.x];
  if (image.num_pieces == 0) return;
  const uint32_t band = blockIdx.y / parts.down, across = args.width / args.patch;
  const uint32_t first_patch = blockIdx.z * parts.patches;
  Target target{.rows = 0,
                .patches = min(parts.patches, across - first_patch),
                .row = blockIdx.y % parts.down * parts.rows,
                .first_row = size_t{image.first_row} + band * across + first_patch};
  target.rows = min(parts.rows, args.patch - target.row);
  const uint32_t row_values = args.width * args.channels, patch_values = args.patch * args.channels;
  const uint32_t first = (band * args.patch + target.row) * row_values + first_patch * patch_values;
  const uint32_t values = (target.rows - 1) * row_values + target.patches * patch_values;
  const uint32_t begin = image.skip_bytes + first * image.value_bytes;
  if (image.value_bytes == 1) bytes += begin % kBusWord;
  bring_bytes(pieces + image.first_piece, image.num_pieces, begin,
              begin + values * image.value_bytes, bytes);
  wait_for_words();
  __syncthreads();
  const float* scale = image.first_scale == ~0u ? nullptr : scales + image.first_scale;
  if (image.value_bytes == 1)
    spread<T, kWidth>(args, target, scale, bytes);
  else
    spread<T, kWidth>(args, target, scale, reinterpret_cast<const float*>(bytes));
}

template <class T, uint32_t kWidth, uint32_t kPacks>
__global__ void embed_patches_kernel(EmbedPatches args, Rows rows, const int32_t* index_of_row) {
  const uint32_t row = my_row();
  if (row >= rows.count || index_of_row[row] < 0) return;
  const uint32_t slot = rows.slots[row], index = static_cast<uint32_t>(index_of_row[row]);
  T* x = static_cast<T*>(args.x) + size_t{row} * args.hidden;
  WarpRow<T, kWidth, kPacks> values(args.hidden);
  values.set(values.read(slab_at<T>(args.position, slot) + size_t{index} * args.hidden));
  if (index == 0)
    values.add(values.read_f32(slab_at<float>(args.class_token, slot)));
  else
    values.add(values.read(x));
  values.store(x);
}

}  // namespace

void gather_patches(const Launcher& launch, const GatherPatches& args, const PixelImage* images,
                    uint32_t num_images, const PixelPiece* pieces, const float* scales) {
  const Parts parts = parts_of(args);
  const Grid grid{.blocks = dim3(num_images, args.height / args.patch * parts.down, parts.across),
                  .threads = dim3(kThreads),
                  .shared_bytes = shared_bytes<uint8_t>(parts.bytes)};
  with_activation(launch.activation(), [&]<class T>() {
    auto* kernel = gather_patches_kernel<T, 1>;
    if (args.patch % 2 == 0) kernel = gather_patches_kernel<T, 2>;
    if (is_packed<T>(args.patch)) kernel = gather_patches_kernel<T, Pack<T>::kWidth>;
    launch(grid, kernel, args, parts, images, pieces, scales);
  });
}

void run(const EmbedPatches& args, Plan& plan) {
  const Rows rows = plan.rows(args.ranges);
  const int32_t* index_of_row = plan.index_in_segment(args.segments, rows.count);
  if (index_of_row == nullptr) return;
  const Launcher& launch = plan.launcher(rows.count, rows.slots, index_of_row);
  with_activation(launch.activation(), [&]<class T>() {
    with_row_of<T>(args.hidden, [&]<uint32_t kWidth, uint32_t kPacks>() {
      launch(grid_of_rows(rows.count), embed_patches_kernel<T, kWidth, kPacks>, args, rows,
             index_of_row);
    });
  });
}

}  // namespace itif::kernels::cuda
