// Arguments of the operators that only decoders use: token by token over a K/V cache in blocks. The
// conventions are those of kernels/args.h; R is the number of rows of a step, one a live beam.
#pragma once

#include "kernels/args.h"

namespace itif::kernels {

inline constexpr uint32_t kMaxKvBlockTokens = 64;
// Tokens of a row that top_tokens finds, at most.
inline constexpr uint32_t kMaxTopTokens = 160;

// out = word[id] · scale + position[pos]; an id of -1 reads as 0.
struct EmbedPositions {
  const int32_t* ids = nullptr;         // [T]
  std::span<const uint32_t> positions;  // [T], host
  std::span<const RowRange> ranges;
  Slab word;                        // act [vocab, hidden]
  const float* position = nullptr;  // f32 [max_positions, hidden], the same for all tenants
  float scale = 1;
  uint32_t hidden = 0;
  void* out = nullptr;  // act [T, hidden]
};

// Keys and values of all layers in blocks of tokens. Who owns which block is the caller's knowledge.
struct KvPool {
  std::byte* base = nullptr;  // act [num_blocks, num_layers, 2 (K, V), block_tokens, hidden]
  uint32_t num_layers = 0;
  uint32_t block_tokens = 0;  // at most kMaxKvBlockTokens
  uint32_t hidden = 0;

  // Elements before the vector of a token: block · block_tokens + its place in the block.
  constexpr size_t offset(uint32_t token_place, uint32_t layer, uint32_t is_value) const {
    const size_t block = token_place / block_tokens;
    return (((block * num_layers + layer) * 2 + is_value) * block_tokens +
            token_place % block_tokens) *
           hidden;
  }
  constexpr size_t block_elements() const { return size_t{num_layers} * 2 * block_tokens * hidden; }
};

// Nowhere: of a form's padding.
inline constexpr uint32_t kNoKvPlace = UINT32_MAX;

// Writes row r's key and value to places[r] of one layer. No place but kNoKvPlace occurs twice.
struct AppendKv {
  const void* key = nullptr;         // act, of row 0
  const void* value = nullptr;       // act, of row 0
  size_t row_stride = 0;             // elements from a row to the next, of both
  std::span<const uint32_t> places;  // [R], host
  KvPool pool;
  uint32_t layer = 0;
};

// Copies the first tokens of a block, all layers. No block is written twice, or written and read.
struct KvCopy {
  uint32_t from = 0, to = 0;  // blocks
  uint32_t num_tokens = 0;
};
struct CopyKv {
  std::span<const KvCopy> copies;
  KvPool pool;
};

// One query a row over the first num_tokens tokens of its blocks: softmax(q kᵀ · scale) v.
struct KvTable {
  uint32_t first = 0;       // of its blocks in CachedAttention::blocks
  uint32_t num_tokens = 0;  // 0: of a form's padding; nothing is written
};
struct CachedAttention {
  const void* query = nullptr;  // act, of row 0
  size_t query_stride = 0;      // elements from a row to the next
  void* out = nullptr;          // act [R, H]
  std::span<const KvTable> tables;
  std::span<const uint32_t> blocks;
  uint32_t max_blocks = 0;  // of launches that are to be alike
  KvPool pool;
  uint32_t layer = 0;
  uint32_t num_heads = 0;
  uint32_t head_size = 0;
  float scale = 0;
};

// The best tokens of each row by log-softmax, best first, of equals the lowest; banned ones count in the
// softmax but are not found. Fewer than `count` that are neither banned nor NaN leave -1 at the end.
struct BannedTokens {
  uint32_t first = 0, count = 0;  // in TopTokens::banned
};
struct TopTokens {
  float* logits = nullptr;  // f32 [R, vocab]; overwritten
  uint32_t rows = 0;        // to find tokens of
  // [rows], host: which of the R, each once; empty: the first ones.
  std::span<const uint32_t> chosen = {};
  uint32_t vocab = 0;
  std::span<const BannedTokens> banned_of = {};  // [rows], host; empty: none
  std::span<const int32_t> banned = {};          // host, each in [0, vocab)
  uint32_t count = 0;                            // at most kMaxTopTokens
  float* log_probabilities = nullptr;            // f32 [rows, count]
  int32_t* tokens = nullptr;                     // [rows, count]
};

}  // namespace itif::kernels
