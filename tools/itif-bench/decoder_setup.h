// Marian's decoder with the random weights of several tenants, ready to run steps over given memories
// (beam 4, sources of 128 tokens: the thesis's), and a step's GEMMs alone.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backbone/decoder.h"
#include "bare.h"
#include "device/device.h"
#include "model/spec.h"
#include "model/weight_store.h"
#include "runtime/gemm_scheduler.h"

namespace itif::bench {

inline constexpr uint32_t kBeams = 4;
inline constexpr uint32_t kSourceTokens = 128;
inline constexpr uint32_t kCandidates = 2 * kBeams;

struct Sequence {
  uint32_t slot = 0;   // of its tenant's weights
  uint32_t place = 0;  // whose blocks of keys and values it has
  uint32_t seed = 0;   // of its source and tokens
};

// The rows of one step: sequences that are all at `position`, each beam with blocks of its own, of
// sequences of up to max_tokens.
class StepRows {
 public:
  StepRows(uint32_t position, uint32_t max_tokens);
  // REQUIRES: slots ascend.
  void add(const Sequence& sequence);
  backbone::DecoderStep step() const;
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const std::vector<kernels::RowRange>& ranges() const { return ranges_; }
  size_t num_rows() const { return tokens_.size(); }
  // Of the sources end to end: where their keys and values go.
  const std::vector<uint32_t>& source_places() const { return source_places_; }

 private:
  const uint32_t position_, blocks_of_beam_;
  std::vector<Sequence> sequences_;
  std::vector<int32_t> tokens_;
  std::vector<uint32_t> positions_, places_, blocks_, source_places_;
  std::vector<kernels::KvTable> history_, memory_;
  std::vector<kernels::RowRange> ranges_;
};

class DecoderSetup {
 public:
  struct Options {
    uint32_t first_tenant = 0;  // whose weights slot 0 holds
    uint32_t num_tenants = 1;
    uint32_t max_sequences = 1;
    uint32_t max_tokens = 1;  // of a sequence
  };
  // `device` outlives it. Errors: kResourceExhausted and those of the device.
  static Result<std::unique_ptr<DecoderSetup>> make(device::Device& device,
                                                    const model::BackboneSpec& spec,
                                                    const Options& options);
  // Real keys and values for every sequence's source; histories are zeros until their steps have run.
  void encode_sources(const StepRows& rows);
  // Runs a step and waits: the best tokens, [rows, kCandidates]. How its GEMMs share the device is chosen
  // by their costs, or told.
  Result<std::vector<int32_t>> found(const StepRows& rows,
                                     std::optional<kernels::GemmMode> told = {});

 private:
  std::unique_ptr<model::WeightStore> weights_;
  std::unique_ptr<backbone::Decoder> decoder_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<runtime::GemmScheduler> gemms_;
};

// The GEMMs of `steps` steps in order, those of a step with weights of their own. Errors: as bare_gemms().
Result<std::unique_ptr<Bare>> step_floor(const Hardware& on, const model::BackboneSpec& spec,
                                         const std::vector<kernels::RowRange>& ranges,
                                         uint32_t steps);

}  // namespace itif::bench
