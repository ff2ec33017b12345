// The generating part of an encoder-decoder model. It encodes each source once and then decodes
// step by step. A step has one row per live beam, of all tenants. Keys and values are in a pool of
// blocks.
//
// The caller tracks what each block holds (runtime/generate/kv_blocks.h); the decoder reads and
// writes the blocks that the caller names. One thread at a time.
#pragma once

#include <cstdint>
#include <span>

#include "backbone/family.h"
#include "kernels/decode_args.h"

namespace itif::backbone {

struct DecoderOptions {
  uint32_t max_rows = 0;   // source rows encoded in one pass
  uint32_t max_beams = 0;  // live beams of one step
  // Rows of one step: the beams, or the largest graph bucket if that has more.
  uint32_t max_step_rows = 0;
  // Upper bound of the K/V pool. The pool is smaller if max_beams beams can never fill it.
  uint64_t max_cache_bytes = 0;
};

// One decoding step: a row with the last token of each live beam, and the padding rows of a graph
// bucket. Host memory. `tokens` must stay valid until the step has run; launch_step() reads the
// rest before it returns.
struct DecoderStep {
  std::span<const int32_t> tokens;      // [R]
  std::span<const uint32_t> positions;  // [R], from 0
  // [R]: where the row's K and V are written; padding: kNoKvRow.
  std::span<const uint32_t> kv_rows;
  std::span<const kernels::KvTable> history;  // [R]: the beam's own tokens, this one included
  std::span<const kernels::KvTable> memory;   // [R]: the tokens of the beam's source
  std::span<const uint32_t> blocks;           // indexed by history and memory
  uint32_t max_blocks = 0;                    // upper bound of blocks.size() in every step
  // Each range has rows of one tenant. A graph bucket's ranges are equally long, so that a tenant
  // may have several.
  std::span<const kernels::RowRange> ranges;
  bool has_bucket = false;  // padded to a graph bucket
  // Rows that need next tokens: all except the padding. Empty: all rows.
  std::span<const uint32_t> beams = {};
  std::span<const kernels::BannedTokens> banned_of;  // one per entry of beams, or empty
  std::span<const int32_t> banned;                   // indexed by banned_of
  uint32_t num_candidates = 0;                       // best tokens to find per row
  kernels::GemmSchedule gemm_schedule = {};
  JoinedGemms joined = {};
};

// Device memory, valid until the next launch.
struct StepResult {
  const float* log_probabilities = nullptr;  // [beams, num_candidates], best first
  const int32_t* tokens = nullptr;           // the same shape; -1: no candidate left
};

class Decoder {
 public:
  static constexpr uint32_t kBlockTokens = 16;
  // The most blocks that a step can name: each beam has its own source, both of maximum length.
  static constexpr uint32_t max_blocks(uint32_t max_beams, uint32_t max_positions) {
    return 2 * max_beams * ((max_positions - 1) / kBlockTokens + 1);
  }

  virtual ~Decoder() = default;
  // Encodes sources. Writes the keys and values of row r, all layers, to kv_rows[r].
  virtual void launch_encode(device::Stream& stream, const model::WeightView& weights,
                             const Pass& pass, std::span<const uint32_t> kv_rows) noexcept = 0;
  virtual void launch_copies(device::Stream& stream,
                             std::span<const kernels::KvCopy> copies) noexcept = 0;
  virtual StepResult launch_step(device::Stream& stream, const model::WeightView& weights,
                                 const DecoderStep& step) noexcept = 0;
  virtual uint64_t workspace_bytes() const = 0;  // without the cache
  virtual uint64_t cache_bytes() const = 0;
  virtual uint32_t num_blocks() const = 0;
};

}  // namespace itif::backbone
