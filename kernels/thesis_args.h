// Arguments of the operators that only the thesis fusion mode of a block uses (ITIF, sections 4.2.2
// and 4.2.3). There attention is five operators with its scores in memory: split heads, Q·Kᵀ,
// softmax, P·V, merge heads. The conventions of kernels/args.h apply. Each operator runs once for
// all tenants and mini-batches.
#pragma once

#include "kernels/args.h"

namespace itif::kernels {

// A request's rows, padding included. Segments in a span are ascending and do not overlap. In the
// layout "by heads", a segment's values take the same place in memory as its rows, ordered
// [heads, num_rows, head_size].
struct PaddedSegment {
  uint32_t first_row = 0;
  uint32_t num_rows = 0;
  uint32_t num_tokens = 0;  // at most num_rows
  // Elements before its [heads, num_rows, num_rows] scores.
  size_t first_score = 0;
};

// out = x + bias, by heads, each row with its tenant's bias (Algorithm 3: model weights rotation).
struct HeadPart {
  const void* x = nullptr;  // act [T, H]
  Slab bias;                // f32 [H]; base nullptr: none
  void* out = nullptr;      // act, by heads; not x
};
struct SplitHeads {
  static constexpr const char* kName = "split_heads";
  std::span<const HeadPart> parts;  // query, key, value
  std::span<const PaddedSegment> segments;
  std::span<const RowRange> ranges;
  uint32_t num_heads = 0;
  uint32_t head_size = 0;
};

// out[r] = row r of x, its heads joined again. Rows of no segment are unchanged.
struct MergeHeads {
  static constexpr const char* kName = "merge_heads";
  const void* x = nullptr;  // act, by heads
  void* out = nullptr;      // act [T, H]; not x
  std::span<const PaddedSegment> segments;
  uint32_t num_heads = 0;
  uint32_t head_size = 0;
};

// x = softmax(x · scale) over the keys that are tokens, in place. The other columns become 0.
struct Softmax {
  static constexpr const char* kName = "softmax";
  void* x = nullptr;  // act, the segments' scores
  std::span<const PaddedSegment> segments;
  uint32_t num_heads = 0;
  uint32_t head_size = 0;  // not read, but H = num_heads · head_size sets a GPU's launch geometry
  float scale = 0;
};

// `count` products of one shape, stored one after another (cuBLAS: strided batched). a, b and out
// are the offsets of the first, in elements.
struct MatrixBatch {
  size_t a = 0, b = 0, out = 0;
  uint32_t m = 0, n = 0, k = 0;
  uint32_t count = 0;
};
// out [m, n] = a [m, k] · b. REQUIRES: the smaller of n and k is at most kMaxHeadSize, the larger
// at most StreamLimits::max_tokens.
struct BatchedGemm {
  static constexpr const char* kName = "batched_gemm";
  const void* a = nullptr;       // act
  const void* b = nullptr;       // act [k, n], or [n, k]
  bool is_b_transposed = false;  // [n, k]
  void* out = nullptr;           // act; neither a nor b
  std::span<const MatrixBatch> batches;
};

using ThesisOperators = OperatorList<BiasActivation, SplitHeads, MergeHeads, BatchedGemm, Softmax>;

namespace host {
void run(const BiasActivation& args, const HostLaunch& launch) noexcept;
void run(const SplitHeads& args, const HostLaunch& launch) noexcept;
void run(const MergeHeads& args, const HostLaunch& launch) noexcept;
void run(const BatchedGemm& args, const HostLaunch& launch) noexcept;
void run(const Softmax& args, const HostLaunch& launch) noexcept;
}  // namespace host
namespace cuda {
void run(const BiasActivation& args, Plan& plan);
void run(const SplitHeads& args, Plan& plan);
void run(const MergeHeads& args, Plan& plan);
void run(const Softmax& args, Plan& plan);
}  // namespace cuda

}  // namespace itif::kernels
