// Marian's decoder with random weights of several tenants, ready to run steps over given encoder
// outputs (beam 4, sources of 128 tokens, as in the thesis), and the GEMMs of a step alone.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backbone/decoder.h"
#include "device/device.h"
#include "limits/bare.h"
#include "model/spec.h"
#include "model/weight_store.h"
#include "runtime/cost/gemm_scheduler.h"

namespace itif::bench {

inline constexpr uint32_t kBeams = 4;
inline constexpr uint32_t kSourceTokens = 128;
inline constexpr uint32_t kCandidates = 2 * kBeams;

struct Sequence {
  uint32_t slot = 0;   // weight slot of its tenant
  uint32_t index = 0;  // of its K/V cache blocks
  uint32_t seed = 0;   // of its source and tokens
};

// The rows of one step. All sequences are at `position`; each beam has its own K/V blocks, sized
// for a sequence of max_tokens.
class StepRows {
 public:
  StepRows(uint32_t position, uint32_t max_tokens);
  // REQUIRES: slots ascend.
  void add(const Sequence& sequence);
  backbone::DecoderStep step() const;
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const std::vector<kernels::RowRange>& ranges() const { return ranges_; }
  size_t num_rows() const { return tokens_.size(); }
  // K/V row of each source token, sources laid end to end.
  const std::vector<uint32_t>& source_kv_rows() const { return source_kv_rows_; }

 private:
  const uint32_t position_, blocks_of_beam_;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> positions_, kv_rows_, blocks_, source_kv_rows_;
  std::vector<kernels::KvTable> history_, memory_;
  std::vector<kernels::RowRange> ranges_;
};

class DecoderSetup {
 public:
  struct Options {
    uint32_t first_tenant = 0;  // slot 0 holds its weights
    uint32_t num_tenants = 1;
    uint32_t max_sequences = 1;
    uint32_t max_tokens = 1;  // per sequence
  };
  // REQUIRES: `device` outlives the result. Errors: kResourceExhausted and those of the device.
  static Result<std::unique_ptr<DecoderSetup>> make(device::Device& device,
                                                    const model::BackboneSpec& spec,
                                                    const Options& options);
  // Computes the keys and values of every sequence's source. The self-attention history is zero
  // until steps run.
  void encode_sources(const StepRows& rows);
  // Runs a step and waits. Returns the best tokens, [rows, kCandidates]. `mode` sets how GEMMs
  // share the device; without it their costs decide.
  Result<std::vector<int32_t>> found(const StepRows& rows,
                                     std::optional<kernels::GemmMode> mode = {});

 private:
  std::unique_ptr<model::WeightStore> weights_;
  std::unique_ptr<backbone::Decoder> decoder_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<runtime::GemmScheduler> gemms_;
};

// The GEMMs of `steps` steps, in the fastest order: tenants together, tenant after tenant, or each
// tenant on a thread of its own. Each GEMM of a step has its own weights. Errors: as bare_gemms().
Result<std::unique_ptr<Bare>> step_floor(const Hardware& on, const model::BackboneSpec& spec,
                                         const std::vector<kernels::RowRange>& ranges,
                                         uint32_t steps);

}  // namespace itif::bench
