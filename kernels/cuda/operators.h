// Launches of operators whose plan data needs more of the stream than plan.h has, and what their
// kernels read. Kernels get plan data as separate arguments, in device memory that the stream has
// filled; the spans in the operators' arguments are host memory.
#pragma once

#include "kernels/args.h"
#include "kernels/cuda/launch.h"

namespace itif::kernels::cuda {

// The rows of a batch: row r belongs to the tenant in slots[r].
struct Rows {
  uint32_t count = 0;
  const uint32_t* slots = nullptr;  // [count]
};

// An IdPiece in the size of one load.
struct alignas(16) IdRun {
  const std::byte* data = nullptr;  // 4-byte aligned
  uint32_t first_row = 0;
  uint32_t num_ids : 31 = 0;
  uint32_t is_wide : 1 = 0;  // u32
};
// pieces: [num_pieces]. Writes the same bits as the host's gather.
void gather_ids(const Launcher& launch, const GatherIds& args, const IdRun* pieces,
                uint32_t num_pieces);
void bias_activation(const Launcher& launch, const BiasActivation& args, const Rows& rows);

// The queries of one block: those of a segment, or of a shared score matrix, from first_query on. A
// tile without rows is skipped.
struct alignas(16) AttentionTile {
  uint32_t first_row = 0, num_rows = 0;  // of the segment or matrix
  uint32_t first_query = 0;              // within it
  uint32_t slot = 0;                     // of the tenant, if a bias is added
};
// The keys of a query: [begin, end), counted from the first row of its score matrix. Empty: the
// query is padding.
struct KeyRange {
  uint32_t begin = 0, end = 0;
};
// Returns the number of queries per tile.
uint32_t attention_tile_queries(DType activation, uint32_t head_size);
// Returns whether attention() can add the bias of queries, keys and values.
bool attention_adds_bias(DType activation, uint32_t head_size);
// tiles: [num_tiles], of all segments or score matrices. bias: f32 [3·H], base nullptr: none.
// keys_of: [T]; nullptr: segments share no score matrix. REQUIRES: no bias unless
// attention_adds_bias(), nor with keys_of.
void attention(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
               uint32_t num_tiles, const Slab& bias, const KeyRange* keys_of);

// An image's pieces are pieces[first_piece, first_piece + num_pieces). Each holds the message from
// byte `begin` on.
struct alignas(16) PixelPiece {
  const std::byte* data = nullptr;
  uint32_t begin = 0, bytes = 0;
};
struct alignas(16) PixelImage {
  uint32_t first_piece = 0, num_pieces = 0;
  uint32_t skip_bytes = 0, value_bytes = 1;
  uint32_t first_row = 0;
  // Index of its scales, which its shifts follow; ~0u: values are not scaled.
  uint32_t first_scale = 0;
};
void gather_patches(const Launcher& launch, const GatherPatches& args, const PixelImage* images,
                    uint32_t num_images, const PixelPiece* pieces, const float* scales);

// Copies `bytes` of device memory to offset `at` of the destination.
struct alignas(16) CopyPiece {
  const void* from = nullptr;
  uint32_t at = 0, bytes = 0;
};
void copy_pieces(const Launcher& launch, const CopyPiece* pieces, uint32_t num_pieces,
                 uint32_t longest_bytes, std::byte* to);

}  // namespace itif::kernels::cuda
