// Arguments of the operators that only decoders use: generation token by token over a paged K/V
// cache. The conventions of kernels/args.h apply. R is the number of rows of a step, one per live
// beam.
#pragma once

#include "kernels/args.h"

namespace itif::kernels {

inline constexpr uint32_t kMaxKvBlockTokens = 64;
// The largest TopTokens::count.
inline constexpr uint32_t kMaxTopTokens = 160;

// out = word[id] · scale + position[pos]; an id of -1 reads as 0.
struct EmbedPositions {
  static constexpr const char* kName = "embed_positions";
  const int32_t* ids = nullptr;         // [T]
  std::span<const uint32_t> positions;  // [T], host
  std::span<const RowRange> ranges;
  Slab word;                        // act [vocab, hidden]
  const float* position = nullptr;  // f32 [max_positions, hidden], the same for all tenants
  float scale = 1;
  uint32_t hidden = 0;
  void* out = nullptr;  // act [T, hidden]
};

// Keys and values of all layers in blocks of tokens. The caller tracks which sequence owns which
// block.
struct KvPool {
  std::byte* base = nullptr;  // act [num_blocks, num_layers, 2 (K, V), block_tokens, hidden]
  uint32_t num_layers = 0;
  uint32_t block_tokens = 0;  // at most kMaxKvBlockTokens
  uint32_t hidden = 0;

  // Elements before the vector of a token. kv_row: block · block_tokens + index in the block.
  constexpr size_t offset(uint32_t kv_row, uint32_t layer, uint32_t is_value) const {
    const size_t block = kv_row / block_tokens;
    return (((block * num_layers + layer) * 2 + is_value) * block_tokens + kv_row % block_tokens) *
           hidden;
  }
  constexpr size_t block_elements() const { return size_t{num_layers} * 2 * block_tokens * hidden; }
};

// K/V row of a padding row of a graph bucket: nothing is written.
inline constexpr uint32_t kNoKvRow = UINT32_MAX;

// Writes row r's key and value to kv_rows[r] of one layer. No K/V row occurs twice, except
// kNoKvRow.
struct AppendKv {
  static constexpr const char* kName = "append_kv";
  const void* key = nullptr;          // act, of row 0
  const void* value = nullptr;        // act, of row 0
  size_t row_stride = 0;              // elements from a row to the next, for both
  std::span<const uint32_t> kv_rows;  // [R], host
  KvPool pool;
  uint32_t layer = 0;
};

// Copies the first tokens of a block, all layers. A block is written at most once, and not read
// then.
struct KvCopy {
  uint32_t from = 0, to = 0;  // blocks
  uint32_t num_tokens = 0;
};
struct CopyKv {
  static constexpr const char* kName = "copy_kv";
  std::span<const KvCopy> copies;
  KvPool pool;
};

// Attention of one query per row over the first num_tokens tokens of the row's blocks:
// softmax(q kᵀ · scale) v.
struct KvTable {
  uint32_t first = 0;       // index of its first block in CachedAttention::blocks
  uint32_t num_tokens = 0;  // 0: padding row of a graph bucket; nothing is written
};
struct CachedAttention {
  static constexpr const char* kName = "cached_attention";
  const void* query = nullptr;  // act, of row 0
  size_t query_stride = 0;      // elements from a row to the next
  void* out = nullptr;          // act [R, H]
  std::span<const KvTable> tables;
  std::span<const uint32_t> blocks;
  // Largest number of blocks of any step: graph replay needs room for as many in each.
  uint32_t max_blocks = 0;
  KvPool pool;
  uint32_t layer = 0;
  uint32_t num_heads = 0;
  uint32_t head_size = 0;
  float scale = 0;
};

// The `count` best tokens of each row by log-softmax, best first. Ties go to the lowest token.
// Banned tokens are not returned. They count in the softmax, unless the row renormalizes. If
// fewer tokens are left (the others are banned or NaN), the last entries are -1.
struct BannedTokens {
  uint32_t first = 0, count = 0;  // in TopTokens::banned
  uint32_t renormalizes = 0;      // 1: the softmax is over the tokens that are not banned
};
struct TopTokens {
  static constexpr const char* kName = "top_tokens";
  float* logits = nullptr;  // f32 [R, vocab]; overwritten
  uint32_t rows = 0;        // rows whose tokens are wanted
  // [rows], host: distinct rows of the R; empty: the first ones.
  std::span<const uint32_t> chosen = {};
  uint32_t vocab = 0;
  std::span<const BannedTokens> banned_of = {};  // [rows], host; empty: none
  std::span<const int32_t> banned = {};          // host, each in [0, vocab)
  uint32_t count = 0;                            // at most kMaxTopTokens
  float* log_probabilities = nullptr;            // f32 [rows, count]
  int32_t* tokens = nullptr;                     // [rows, count]
};

using DecoderOperators = OperatorList<EmbedPositions, AppendKv, CopyKv, CachedAttention, TopTokens>;

namespace host {
void run(const EmbedPositions& args, const HostLaunch& launch) noexcept;
void run(const AppendKv& args, const HostLaunch& launch) noexcept;
void run(const CopyKv& args, const HostLaunch& launch) noexcept;
void run(const CachedAttention& args, const HostLaunch& launch) noexcept;
void run(const TopTokens& args, const HostLaunch& launch) noexcept;
}  // namespace host
namespace cuda {
void run(const EmbedPositions& args, Plan& plan);
void run(const AppendKv& args, Plan& plan);
void run(const CopyKv& args, Plan& plan);
void run(const CachedAttention& args, Plan& plan);
void run(const TopTokens& args, Plan& plan);
}  // namespace cuda

}  // namespace itif::kernels
