// The operators of kernels/args.h on a GPU, as the CUDA device's stream calls them. One .cu file
// each.
//
// Spans in the arguments are host memory and are not read here. Kernels get the plan data that they
// need as separate arguments, in device memory that the stream has filled
// (lib/device/cuda/memory/plan_memory.h).
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/decode_args.h"
#include "kernels/thesis_args.h"

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
// positions: [rows]; token_types: [rows], nullptr: all 0.
void embed_layer_norm(const Launcher& launch, const EmbedLayerNorm& args, const Rows& rows,
                      const uint32_t* positions, const uint8_t* token_types);
void embed_positions(const Launcher& launch, const EmbedPositions& args, const Rows& rows,
                     const uint32_t* positions);
void residual_layer_norm(const Launcher& launch, const ResidualLayerNorm& args, const Rows& rows);
void bias_activation(const Launcher& launch, const BiasActivation& args, const Rows& rows);
void to_f32(const Launcher& launch, const ToF32& args);
// items: [num_items], each of at most `columns` columns (n) and `rows` rows.
void small_linears(const Launcher& launch, const SmallLinear* items, uint32_t num_items,
                   uint32_t columns, uint32_t rows);
// segments: [num_segments]; chosen: [num_chosen].
void pool_segments(const Launcher& launch, const PoolSegments& args, const SegmentRows* segments,
                   const uint32_t* chosen, uint32_t num_chosen);

// The queries of one block: those of a segment from first_query on. A tile without rows is skipped.
struct alignas(16) AttentionTile {
  uint32_t first_row = 0, num_rows = 0;  // of the segment
  uint32_t first_query = 0;              // within it
  uint32_t slot = 0;                     // of the tenant, if a bias is added
};
// Returns the number of queries per tile.
uint32_t attention_tile_queries(DType activation, uint32_t head_size);
// Returns whether attention() can add the bias of queries, keys and values.
bool attention_adds_bias(DType activation, uint32_t head_size);
// tiles: [num_tiles], of all segments. bias: f32 [3·H], base nullptr: none. REQUIRES: no bias
// unless attention_adds_bias().
void attention(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
               uint32_t num_tiles, const Slab& bias);

// kv_rows: [num_rows].
void append_kv(const Launcher& launch, const AppendKv& args, const uint32_t* kv_rows,
               uint32_t num_rows);
void copy_kv(const Launcher& launch, const CopyKv& args, const KvCopy* copies, uint32_t num_copies);
// tables: [num_rows].
void cached_attention(const Launcher& launch, const CachedAttention& args, const KvTable* tables,
                      const uint32_t* blocks, uint32_t num_rows);
// chosen: [args.rows], nullptr: the first rows. banned_of: [args.rows], nullptr: none.
void top_tokens(const Launcher& launch, const TopTokens& args, const uint32_t* chosen,
                const BannedTokens* banned_of, const int32_t* banned);

// segments: [num_segments]. segment_of_row: the number of each row's segment; -1: none.
void split_heads(const Launcher& launch, const HeadPart& part, const SplitHeads& args,
                 const Rows& rows, const PaddedSegment* segments, const int32_t* segment_of_row);
void merge_heads(const Launcher& launch, const MergeHeads& args, const PaddedSegment* segments,
                 const int32_t* segment_of_row, uint32_t num_rows);
void softmax(const Launcher& launch, const Softmax& args, const PaddedSegment* segments,
             uint32_t num_segments, uint32_t longest);

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
// index_of_row: a row's index within its segment; -1: in no segment.
void embed_patches(const Launcher& launch, const EmbedPatches& args, const Rows& rows,
                   const int32_t* index_of_row);

// Copies `bytes` of device memory to offset `at` of the destination.
struct alignas(16) CopyPiece {
  const void* from = nullptr;
  uint32_t at = 0, bytes = 0;
};
void copy_pieces(const Launcher& launch, const CopyPiece* pieces, uint32_t num_pieces,
                 uint32_t longest_bytes, std::byte* to);

}  // namespace itif::kernels::cuda
