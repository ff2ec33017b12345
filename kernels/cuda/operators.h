// The operators of kernels/args.h on a GPU: what the CUDA device's stream calls. One .cu each.
//
// Spans in the arguments are host memory and are not read here: what a kernel needs of a batch's plan comes
// beside them, as device memory that the stream has put there (lib/device/cuda/plan_memory.h).
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/decode_args.h"
#include "kernels/thesis_args.h"

namespace itif::kernels::cuda {

// The rows of a batch: row r is of slots[r].
struct Rows {
  uint32_t count = 0;
  const uint32_t* slots = nullptr;  // [count]
};

// An IdPiece, read by one load.
struct alignas(16) IdRun {
  const std::byte* data = nullptr;  // 4-byte aligned
  uint32_t first_row = 0;
  uint32_t num_ids : 31 = 0;
  uint32_t is_wide : 1 = 0;  // u32
};
// pieces: [num_pieces]. Bit for bit what the host's gather writes.
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
// items: [num_items], of at most so many columns (n) and rows each.
void small_linears(const Launcher& launch, const SmallLinear* items, uint32_t num_items,
                   uint32_t columns, uint32_t rows);
// segments: [num_segments]; chosen: [num_chosen].
void pool_segments(const Launcher& launch, const PoolSegments& args, const SegmentRows* segments,
                   const uint32_t* chosen, uint32_t num_chosen);

// Queries that one block attends to: those of a segment from first_query on. Without rows it is nothing to do.
struct alignas(16) AttentionTile {
  uint32_t first_row = 0, num_rows = 0;  // of the segment
  uint32_t first_query = 0;              // within it
  uint32_t slot = 0;                     // of the tenant, where a bias is added
};
// How many queries a tile has.
uint32_t attention_tile_queries(DType activation, uint32_t head_size);
// Whether attention adds what queries, keys and values still lack.
bool attention_adds_bias(DType activation, uint32_t head_size);
// tiles: [num_tiles], of all segments. bias: f32 [3·H], base nullptr: none. REQUIRES: none that it does not add.
void attention(const Launcher& launch, const Attention& args, const AttentionTile* tiles,
               uint32_t num_tiles, const Slab& bias);

// places: [num_rows].
void append_kv(const Launcher& launch, const AppendKv& args, const uint32_t* places,
               uint32_t num_rows);
void copy_kv(const Launcher& launch, const CopyKv& args, const KvCopy* copies, uint32_t num_copies);
// tables: [num_rows].
void cached_attention(const Launcher& launch, const CachedAttention& args, const KvTable* tables,
                      const uint32_t* blocks, uint32_t num_rows);
// chosen: [args.rows], nullptr: the first rows. banned_of: [args.rows], nullptr: none.
void top_tokens(const Launcher& launch, const TopTokens& args, const uint32_t* chosen,
                const BannedTokens* banned_of, const int32_t* banned);

// segments: [num_segments], of every row of a segment its number in `segment_of_row`, of others -1.
void split_heads(const Launcher& launch, const HeadPart& part, const SplitHeads& args,
                 const Rows& rows, const PaddedSegment* segments, const int32_t* segment_of_row);
void merge_heads(const Launcher& launch, const MergeHeads& args, const PaddedSegment* segments,
                 const int32_t* segment_of_row, uint32_t num_rows);
void softmax(const Launcher& launch, const Softmax& args, const PaddedSegment* segments,
             uint32_t num_segments, uint32_t longest);

// An image's pieces are pieces[first_piece, first_piece + num_pieces), each from byte `begin` of the message on.
struct alignas(16) PixelPiece {
  const std::byte* data = nullptr;
  uint32_t begin = 0, bytes = 0;
};
struct alignas(16) PixelImage {
  uint32_t first_piece = 0, num_pieces = 0;
  uint32_t skip_bytes = 0, value_bytes = 1;
  uint32_t first_row = 0;
  uint32_t first_scale = 0;  // of its scales, shifts behind them; ~0u: values are taken as they are
};
void gather_patches(const Launcher& launch, const GatherPatches& args, const PixelImage* images,
                    uint32_t num_images, const PixelPiece* pieces, const float* scales);
// index_of_row: within its segment; -1: of none.
void embed_patches(const Launcher& launch, const EmbedPatches& args, const Rows& rows,
                   const int32_t* index_of_row);

// `bytes` of device memory to offset `at` of a run.
struct alignas(16) CopyPiece {
  const void* from = nullptr;
  uint32_t at = 0, bytes = 0;
};
void copy_pieces(const Launcher& launch, const CopyPiece* pieces, uint32_t num_pieces,
                 uint32_t longest_bytes, std::byte* to);

}  // namespace itif::kernels::cuda
