// Arguments of the operators that only the thesis's form of a block uses (ITIF, sections 4.2.2 and 4.2.3),
// where attention is five operators with its scores in memory: split heads, Q·Kᵀ, softmax, P·V, merge
// heads. The conventions are those of kernels/args.h. Each runs once for all tenants and mini-batches.
#pragma once

#include "kernels/args.h"

namespace itif::kernels {

// A request's rows, padding included. Segments in a span are ascending and do not overlap. By heads, the
// values of a segment's rows stand at the same place, as [heads, num_rows, head_size].
struct PaddedSegment {
  uint32_t first_row = 0;
  uint32_t num_rows = 0;
  uint32_t num_tokens = 0;  // at most num_rows
  size_t first_score = 0;   // where its [heads, num_rows, num_rows] scores stand among all
};

// out = x + bias, by heads: each row finds its tenant's bias (Algorithm 3: model weights rotation).
struct HeadPart {
  const void* x = nullptr;  // act [T, H]
  Slab bias;                // f32 [H]; base nullptr: none
  void* out = nullptr;      // act, by heads; not x
};
struct SplitHeads {
  std::span<const HeadPart> parts;  // query, key, value
  std::span<const PaddedSegment> segments;
  std::span<const RowRange> ranges;
  uint32_t num_heads = 0;
  uint32_t head_size = 0;
};

// out[r] = the row whose heads stand apart in x; rows of no segment are left as they are.
struct MergeHeads {
  const void* x = nullptr;  // act, by heads
  void* out = nullptr;      // act [T, H]; not x
  std::span<const PaddedSegment> segments;
  uint32_t num_heads = 0;
  uint32_t head_size = 0;
};

// x = softmax(x · scale) over the keys that are tokens; the other columns become 0. In place.
struct Softmax {
  void* x = nullptr;  // act, the segments' scores
  std::span<const PaddedSegment> segments;
  uint32_t num_heads = 0;
  float scale = 0;
};

// `count` products of one shape, each behind the one before; a, b and out are where the first stands,
// in elements. What cuBLAS calls strided batched.
struct MatrixBatch {
  size_t a = 0, b = 0, out = 0;
  uint32_t m = 0, n = 0, k = 0;
  uint32_t count = 0;
};
// out [m, n] = a [m, k] · b. REQUIRES: the smaller of n and k is at most kMaxHeadSize, the larger at most
// StreamLimits::max_tokens.
struct BatchedGemm {
  const void* a = nullptr;       // act
  const void* b = nullptr;       // act [k, n], or [n, k]
  bool is_b_transposed = false;  // [n, k]
  void* out = nullptr;           // act; neither a nor b
  std::span<const MatrixBatch> batches;
};

}  // namespace itif::kernels
