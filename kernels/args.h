// Arguments of the operators that every device implements: plain structs of pointers, sizes and
// spans, shared by host code, CUDA code and tests. All pointers are device pointers unless said
// otherwise. Spans of plan data are host memory and are read before the call returns. An operator's
// kName is its name in reports.
//
// T is the number of tokens of the batch, laid end to end without padding (rows 0 … T−1); H the
// hidden size. `act` is the device's activation type (ComputeTypes): f32, bf16 or f16. A
// Slab holds one entry per slot (ITIF, equation 3.1): entry s is at base + s · stride_bytes, unless
// `offsets` says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_piece.h"

namespace itif::kernels {
namespace host {
struct HostLaunch;
}
namespace cuda {
class Plan;
}

// Each header of arguments ends with the list of its operators; kernels/operators.h joins them.
template <class... Args>
struct OperatorList {};

// The largest head size that attention takes.
inline constexpr uint32_t kMaxHeadSize = 256;

// Rows of one tenant. Ranges in a span are ascending, adjacent, and cover rows [0, T).
struct RowRange {
  uint32_t first_row = 0;
  uint32_t num_rows = 0;
  uint32_t slot = 0;
};

// The rows of one segment that hold its tokens. Segments in a span are ascending and do not
// overlap. Rows between them are padding, which is neither attended to nor pooled.
struct SegmentRows {
  uint32_t first_row = 0;
  uint32_t num_rows = 0;
};

struct Slab {
  std::byte* base = nullptr;
  size_t stride_bytes = 0;
  // Host memory, by slot: the entry of slot s is at base + offsets[s], so that slots of this and of
  // other slabs can share an entry. nullptr, as always on a GPU: slot s has entry s.
  const ptrdiff_t* offsets = nullptr;

  constexpr std::byte* at(uint32_t slot) const {
#ifdef __CUDA_ARCH__
    return base + slot * stride_bytes;  // saves a load in each kernel
#endif
    return base +
           (offsets == nullptr ? static_cast<ptrdiff_t>(slot * stride_bytes) : offsets[slot]);
  }
  // Returns a slab of the parts that begin `bytes` after the start of each entry.
  constexpr Slab from(size_t bytes) const {
    return {base + bytes, stride_bytes, offsets};
  }
};

// Reads token ids directly from packet buffers (host memory, registered with the device).
struct IdPiece {
  const std::byte* data = nullptr;  // 4-byte aligned
  uint32_t num_ids = 0;
  uint32_t first_row = 0;  // row of its first id
  uint8_t id_bytes = 2;    // 2: u16, 4: u32
};
struct GatherIds {
  static constexpr const char* kName = "gather_ids";
  std::span<const IdPiece> pieces;
  int32_t* ids = nullptr;  // [T]; an id ≥ vocab_size is written as -1
  uint32_t vocab_size = 0;
};

// out = LayerNorm(word[id] + position[pos] + type[type]); an id of -1 reads as 0.
struct EmbedLayerNorm {
  static constexpr const char* kName = "embed_layer_norm";
  const int32_t* ids = nullptr;          // [T]
  std::span<const uint32_t> positions;   // [T], host: rows of the position table
  std::span<const uint8_t> token_types;  // [T], host; empty: all 0
  std::span<const RowRange> ranges;
  Slab word;         // act [vocab, H]
  Slab position;     // act [max_positions, H]
  Slab token_type;   // act [type_vocab, H]; base nullptr: the family has none
  Slab gamma, beta;  // f32 [H]
  float epsilon = 1e-12f;
  uint32_t hidden = 0;  // width of the tables: a family may project it to its hidden size later
  void* out = nullptr;  // act [T, hidden]
};

// The largest pixel row of a patch, in values: patch size · channels.
inline constexpr uint32_t kMaxPatchRow = 4096;

// An image in the packets that carried it (host memory, registered with the device). The pieces may
// have any length and any address. Laid end to end they hold skip_bytes of other data, then
// height · width · channels values (HWC). The device reads nothing outside a piece.
struct ImagePixels {
  std::span<const BytePiece> pieces;
  uint32_t skip_bytes = 0;
  uint8_t value_bytes = 1;       // 1: u8, 4: f32
  uint32_t first_row = 0;        // of out, for its first patch
  const float* scale = nullptr;  // host, [channels]; nullptr: values are not scaled
  const float* shift = nullptr;  // host, [channels]
};

// Cuts images into patches, row by row of the image: out row first_row + i holds patch i as
// [channels, patch, patch], the order in which a convolution's weight [n, channels, patch, patch]
// is flattened. Each value becomes value · scale[channel] + shift[channel]. Pixels past the last
// whole patch are dropped.
struct GatherPatches {
  static constexpr const char* kName = "gather_patches";
  std::span<const ImagePixels> images;
  uint32_t height = 0, width = 0, channels = 0;  // of every image
  uint32_t patch = 0;   // REQUIRES: ≤ height and width; patch · channels ≤ kMaxPatchRow
  void* out = nullptr;  // act [T, channels · patch²]; rows of no patch are unchanged
};

// Puts a class token before each segment's patches and adds the positions, in place: a segment's
// first row becomes class_token + position[0], its row i becomes x + position[i]. Rows of no
// segment are unchanged.
struct EmbedPatches {
  static constexpr const char* kName = "embed_patches";
  void* x = nullptr;  // act [T, hidden]
  std::span<const SegmentRows> segments;
  std::span<const RowRange> ranges;
  Slab class_token;  // f32 [hidden]
  Slab position;     // act [rows of a segment, hidden]
  uint32_t hidden = 0;
};

enum class Activation : uint8_t { kNone, kGelu, kGeluTanh, kRelu, kTanh, kSilu };

// How the ranges of a grouped GEMM share the device. Results differ only in the order of sums.
enum class GemmMode : uint8_t {
  kSequential,  // sequentially, each range on the whole device
  kConcurrent,  // concurrently, each range on a part of the device (host: one thread)
  // Only devices that name them (DeviceInfo::gemm_modes) distinguish these; elsewhere kStreams is
  // kSequential, and kPointers kConcurrent.
  kStreams,   // GPU: a call for each range, spread over streams
  kPointers,  // GPU: as kConcurrent, but operands are always found by pointers
};

// The mode of a GEMM by its shape. The GEMM of one range on the whole device takes
// call_ns + rows * row_ns, by the cost tables; both 0: unknown.
struct ShapeMode {
  uint32_t n = 0, k = 0;
  GemmMode mode = GemmMode::kSequential;
  double call_ns = 0, row_ns = 0;
};
// One call of a batch plan: a GEMM of one range on the whole device, or a BatchedGEMM of several.
struct GemmCall {
  uint32_t num_ranges = 0;
  float cost_ns = 0;  // by the cost tables, to balance streams; 0: unknown
  bool operator==(const GemmCall&) const = default;
};

// How a GEMM's ranges are divided into calls: as planned, or by the mode of its shape. The spans
// must outlive the object.
class GemmSchedule {
 public:
  constexpr GemmSchedule(GemmMode others = GemmMode::kSequential) : others_(others) {}
  // `others`: the mode of shapes that are not listed.
  constexpr GemmSchedule(std::span<const ShapeMode> shapes, GemmMode others)
      : shapes_(shapes), others_(others) {}
  // The calls cover the ranges in order, without gap. REQUIRES: not empty.
  constexpr explicit GemmSchedule(std::span<const GemmCall> calls) : calls_(calls) {}

  // Empty: mode_of() decides.
  constexpr std::span<const GemmCall> calls() const { return calls_; }
  constexpr GemmMode mode_of(uint32_t n, uint32_t k) const {
    for (const ShapeMode& shape : shapes_)
      if (shape.n == n && shape.k == k) return shape.mode;
    return others_;
  }
  // Time of the GEMM of one range of `rows` rows; 0: unknown.
  constexpr double range_ns(uint32_t n, uint32_t k, uint32_t rows) const {
    for (const ShapeMode& shape : shapes_)
      if (shape.n == n && shape.k == k) return shape.call_ns + rows * shape.row_ns;
    return 0;
  }
  constexpr std::span<const ShapeMode> shapes() const { return shapes_; }
  constexpr GemmMode others() const { return others_; }
  // As kernels/spans.h.
  template <class Visit>
  constexpr void for_each_span(const Visit& visit) {
    visit(shapes_);
    visit(calls_);
  }

 private:
  std::span<const ShapeMode> shapes_;
  std::span<const GemmCall> calls_;
  GemmMode others_ = GemmMode::kSequential;
};

// Opaque handle of a GEMM shape that Device::prepare() has prepared.
struct PreparedGemm {};

// out[r] = activation(a[r] · W[slot]ᵀ + bias[slot]) for the rows of each range.
// Weights are in the device's packed layout of one GemmShape.
struct GroupedGemm {
  const void* a = nullptr;  // act [T, k]; readable up to Device::row_slack() rows past T
  Slab weights;             // packed [n, k] (Device::pack)
  Slab bias;                // f32 [n]; base nullptr: none
  void* out = nullptr;      // act [T, n]; writable up to Device::row_slack() rows past T
  uint32_t n = 0;
  uint32_t k = 0;
  Activation activation = Activation::kNone;
  std::span<const RowRange> ranges;
  GemmSchedule schedule = {};
  const PreparedGemm* prepared = nullptr;  // for n, k, f32_out and presence of a bias
  bool f32_out = false;                    // out is f32 for any act. REQUIRES: no activation
};
// Independent GEMMs, such as query, key and value. CUDA: calls spread over streams, which join
// before the next launch. Host: the ranges of concurrent calls (GemmMode::kConcurrent, or a planned
// call of several ranges) are distributed together over the threads; otherwise the GEMMs run one
// after another. REQUIRES: none
// writes what another reads or writes.
//
// The bias of a single GEMM may be fused into the Attention or ResidualLayerNorm that follows and
// reads `out`; do not read `out` after that. REQUIRES of such an Attention: each segment's rows are
// of one tenant.
struct GroupedGemms {
  static constexpr const char* kName = "gemm";
  std::span<const GroupedGemm> all;
};

// x[r] = activation(x[r] + bias[slot]) in place.
struct BiasActivation {
  static constexpr const char* kName = "bias_activation";
  void* x = nullptr;  // act [T, width]
  Slab bias;          // f32 [width]; base nullptr: none
  uint32_t width = 0;
  Activation activation = Activation::kNone;
  std::span<const RowRange> ranges;
  bool has_thesis_grid = false;  // on a GPU: the launch geometry of ITIF, equations 4.3 and 4.4
};

// Self-attention within each segment: softmax(q kᵀ · scale) v, heads side by side.
//
// With score_matrices, all rows of a matrix are compared with each other, and scores outside the
// segments' diagonal blocks are masked with −∞ before the softmax. Source: TCB, equations 5 and 6
// (a matrix per batch row) and 8 (a matrix per slot). The results are the same. A segment's values
// reach no other segment, even if they are infinite or NaN.
struct Attention {
  static constexpr const char* kName = "attention";
  const void* qkv = nullptr;  // act [T, 3·H]: q, k and v of a row, concatenated
  void* out = nullptr;        // act [T, H]; rows of no segment are unchanged
  std::span<const SegmentRows> segments;
  // Rows that share a matrix of scores: whole segments and padding, ascending, without overlap.
  // Empty: each segment has its own matrix. Else each segment lies in one of them.
  std::span<const SegmentRows> score_matrices = {};
  uint32_t num_heads = 0;
  uint32_t head_size = 0;
  float scale = 0;  // 1/√head_size
  // All rows of a batch that is padded to a graph bucket; 0: the batch is not padded. With it the
  // launches depend only on this value and the numbers of segments and of score matrices, some of
  // which may be empty.
  uint32_t max_bucket_rows = 0;

  // Returns true if each segment has its own scores, and they are only the scaled products of its
  // queries and keys. Libraries and kernels that know no other attention ask this.
  bool is_plain() const { return score_matrices.empty(); }
};

// sum = x + bias + residual, out = LayerNorm(sum), each row with its tenant's bias, gamma and beta.
// out and sum may each be x or residual, but not the same buffer.
struct ResidualLayerNorm {
  static constexpr const char* kName = "residual_layer_norm";
  const void* x = nullptr;         // act [T, H]
  Slab bias = {};                  // f32 [H]; base nullptr: none
  const void* residual = nullptr;  // act [T, H]; nullptr: none
  Slab gamma, beta;                // f32 [H]
  float epsilon = 1e-12f;
  uint32_t hidden = 0;
  std::span<const RowRange> ranges;
  void* out = nullptr;           // act [T, H]
  void* sum = nullptr;           // act [T, H]; nullptr: not wanted
  bool has_thesis_grid = false;  // as BiasActivation's
};

// out[i] = pooled rows of segment chosen[i] as f32, optionally scaled to unit length.
enum class Pooling : uint8_t { kFirst, kMean, kMax, kMeanSqrtLength, kLast };
struct PoolSegments {
  static constexpr const char* kName = "pool_segments";
  const void* x = nullptr;  // act [T, H]
  std::span<const SegmentRows> segments;
  std::span<const uint32_t> chosen;  // indices into segments, in output order
  Pooling pooling = Pooling::kFirst;
  bool normalize = false;
  uint32_t hidden = 0;
  float* out = nullptr;  // f32 [chosen.size(), H]
};

// out = x converted to f32, elementwise.
struct ToF32 {
  static constexpr const char* kName = "to_f32";
  const void* x = nullptr;  // act [count]
  float* out = nullptr;     // f32 [count]
  size_t count = 0;
};

// out[r] = activation(x[r] · Wᵀ + bias) in f32: the small heads (pooler, classifier), a few rows
// each.
struct SmallLinear {
  const float* x = nullptr;       // f32 [rows, k]
  const float* weight = nullptr;  // f32 [n, k] row-major
  const float* bias = nullptr;    // f32 [n] or nullptr
  float* out = nullptr;           // f32 [rows, n]
  uint32_t rows = 0, n = 0, k = 0;
  Activation activation = Activation::kNone;
};
// The heads of all tenants of a batch. REQUIRES: none reads what another writes.
struct SmallLinears {
  static constexpr const char* kName = "small_linear";
  std::span<const SmallLinear> all;
};

using CommonOperators =
    OperatorList<GatherIds, EmbedLayerNorm, GatherPatches, EmbedPatches, GroupedGemms, Attention,
                 ResidualLayerNorm, PoolSegments, ToF32, SmallLinears>;

// Implementations: kernels/host and kernels/cuda. The streams of lib/device implement the others,
// which need a library or the stream's state.
namespace host {
void run(const GatherIds& args, const HostLaunch& launch) noexcept;
void run(const EmbedLayerNorm& args, const HostLaunch& launch) noexcept;
void run(const GatherPatches& args, const HostLaunch& launch) noexcept;
void run(const EmbedPatches& args, const HostLaunch& launch) noexcept;
void run(const Attention& args, const HostLaunch& launch) noexcept;
void run(const ResidualLayerNorm& args, const HostLaunch& launch) noexcept;
void run(const PoolSegments& args, const HostLaunch& launch) noexcept;
void run(const ToF32& args, const HostLaunch& launch) noexcept;
void run(const SmallLinears& args, const HostLaunch& launch) noexcept;
}  // namespace host
namespace cuda {
void run(const EmbedLayerNorm& args, Plan& plan);
void run(const EmbedPatches& args, Plan& plan);
void run(const ResidualLayerNorm& args, Plan& plan);
void run(const PoolSegments& args, Plan& plan);
void run(const ToF32& args, Plan& plan);
void run(const SmallLinears& args, Plan& plan);
}  // namespace cuda

}  // namespace itif::kernels
