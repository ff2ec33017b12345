// The decoder side of an encoder–decoder: encodes sources once, then runs step by step over rows of all
// tenants, one row a live beam, with keys and values in a pool of blocks.
//
// Which blocks hold what is the caller's knowledge (runtime/kv_blocks.h); the decoder reads and writes where
// it is told. One thread at a time.
#pragma once

#include <cstdint>
#include <span>

#include "backbone/family.h"
#include "kernels/decode_args.h"

namespace itif::backbone {

struct DecoderOptions {
  uint32_t max_rows = 0;         // of sources encoded at once
  uint32_t max_beams = 0;        // live ones of one step
  uint32_t max_step_rows = 0;    // of one step: beams, or with a form's padding more
  uint64_t max_cache_bytes = 0;  // the pool is no larger, nor than max_beams could ever need
};

// One step: the tokens that were chosen last, a row each, and a form's padding. Host memory; `tokens` stay until the
// step has run, the rest is read before launch_step() returns.
struct DecoderStep {
  std::span<const int32_t> tokens;      // [R]
  std::span<const uint32_t> positions;  // [R], from 0
  std::span<const uint32_t> places;     // [R]: where each token's K and V go; padding: nowhere
  std::span<const kernels::KvTable> history;  // [R]: the beam's own tokens, this one included
  std::span<const kernels::KvTable> memory;   // [R]: the source's
  std::span<const uint32_t> blocks;           // that both name
  uint32_t max_blocks = 0;                    // of any step
  std::span<const kernels::RowRange> ranges;  // one a tenant; of a form equally long
  bool has_form = false;
  // Rows whose next tokens are to be found: all but the padding; empty: all.
  std::span<const uint32_t> beams = {};
  std::span<const kernels::BannedTokens> banned_of;  // one each, or none
  std::span<const int32_t> banned;
  uint32_t num_candidates = 0;  // best tokens to find of each
  kernels::GemmModes gemm_mode = {};
};

// Device memory, valid until the next launch.
struct StepResult {
  const float* log_probabilities = nullptr;  // [beams, num_candidates], best first
  const int32_t* tokens = nullptr;           // -1: none
};

class Decoder {
 public:
  static constexpr uint32_t kBlockTokens = 16;
  // That the tables of a step name at most: a beam of its own source each, both as long as they may be.
  static constexpr uint32_t max_blocks(uint32_t max_beams, uint32_t max_positions) {
    return 2 * max_beams * ((max_positions - 1) / kBlockTokens + 1);
  }

  virtual ~Decoder() = default;
  // Encodes sources and writes their keys and values, all layers, row r's to places[r].
  virtual void launch_encode(device::Stream& stream, const model::WeightView& weights,
                             const Pass& pass, std::span<const uint32_t> places) noexcept = 0;
  virtual void launch_copies(device::Stream& stream,
                             std::span<const kernels::KvCopy> copies) noexcept = 0;
  virtual StepResult launch_step(device::Stream& stream, const model::WeightView& weights,
                                 const DecoderStep& step) noexcept = 0;
  virtual uint64_t workspace_bytes() const = 0;  // without the cache
  virtual uint64_t cache_bytes() const = 0;
  virtual uint32_t num_blocks() const = 0;
};

}  // namespace itif::backbone
