// A backbone with random weights of several tenants, ready to run batches, and the GEMMs of a batch
// alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "device/device.h"
#include "device/stream/metered_stream.h"
#include "limits/bare.h"
#include "model/spec.h"
#include "model/weight_store.h"
#include "plan/plan.h"
#include "runtime/cost/gemm_scheduler.h"
#include "runtime/cost/pass_limits.h"

namespace itif::bench {

// BERT-base: 12 layers, hidden 768, 12 heads, intermediate 3072.
model::BackboneSpec bert_base();

struct EncoderCase {
  std::string name;
  std::vector<std::vector<uint32_t>> lengths;  // lengths[t]: tokens of each segment of tenant t
  uint32_t num_tokens() const;
};

double cosine(const float* a, const float* b, size_t count);

// Fills an acquired slot with random weights, seeded by `tenant`: the same in every run.
Status fill_with_noise(device::Device& device, const model::WeightStore& weights, uint32_t slot,
                       uint32_t tenant);

struct EncoderOptions {
  uint32_t first_tenant = 0;
  backbone::FusionMode fusion_mode = backbone::FusionMode::kFused;
};

class Encoder {
 public:
  // Slot s holds the weights of tenant options.first_tenant + s. A tenant's weights are the same in
  // every Encoder.
  static Result<std::unique_ptr<Encoder>> make(device::Device& device,
                                               const model::BackboneSpec& spec,
                                               uint32_t num_tenants, uint32_t max_tokens,
                                               const EncoderOptions& options = {});

  // Host arrays of a batch. Token ids are seeded by the segment's index, so that a request has the
  // same ids in every layout.
  struct Batch {
    std::vector<uint16_t> ids;
    std::vector<kernels::IdPiece> pieces;
    std::vector<uint32_t> positions;
    std::vector<uint32_t> offsets;  // [segments + 1]
    std::vector<kernels::SegmentRows> segments;
    std::vector<kernels::SegmentRows> score_matrices;  // as backbone::Pass's
    std::vector<kernels::RowRange> ranges;
    std::vector<kernels::GemmCall> calls;  // as planned; empty: the GEMM scheduler chooses
    // Image models only, in place of ids: random pixels, split into pieces of a datagram's size.
    struct Pictures {
      std::vector<std::vector<std::byte>> pixels;
      std::vector<std::vector<BytePiece>> pieces;
    };
    std::shared_ptr<const Pictures> pictures;  // owns the memory that `images` points to
    std::vector<kernels::ImagePixels> images;
    backbone::Pass pass(runtime::GemmScheduler& gemms) const;
  };
  static Batch make_batch(const EncoderCase& c, uint32_t vocab);
  // The same requests, each padded to the longest of its tenant.
  static Batch make_padded_batch(const EncoderCase& c, uint32_t vocab);
  // REQUIRES: every length is spec.max_tokens().
  static Batch make_images(const EncoderCase& c, const model::BackboneSpec& spec);
  // A batch of only this segment.
  static Batch alone(const Batch& batch, size_t segment);

  // A batch of one tenant's segments; `slot` holds its weights. Refers to the ids of `batch`.
  static Batch of_tenant(const Batch& batch, uint32_t tenant, uint32_t slot);
  // One pass of a plan, padding included. Item i has the ids of segment i of make_batch(), or the
  // pixels of segment i of `images`.
  static Batch of_pass(const plan::Plan& plan, const plan::Pass& pass, uint32_t vocab,
                       const Batch* images = nullptr);

  // Queues a pass over requests of slot 0, for profiling.
  void launch_sample(device::Stream& stream, uint32_t num_requests, uint32_t num_tokens);
  // Runs the batch and waits.
  Status forward(const Batch& batch);
  device::Stream& stream() { return *stream_; }
  uint32_t hidden() const { return spec_.hidden; }
  // The measured costs of the GEMMs; null: there is one tenant, nothing was measured.
  const std::shared_ptr<const plan::CostTables>& costs() const { return costs_; }
  // For plan::PlanLimits.
  const runtime::PassLimits& pass_limits() const { return pass_limits_; }
  // Counts and times all further launches; on a GPU per operator. The Encoder owns the result.
  device::MeteredStream& meter(const Clock& clock);
  // Device memory of all tenants' weights and the workspace.
  uint64_t bytes() const;
  // The last hidden states as f32, [num_tokens, hidden].
  Result<std::vector<float>> hidden_states(const Batch& batch);
  // The last hidden states of each tenant's last token, [ranges, hidden].
  Result<std::vector<float>> last_states(const Batch& batch);

 private:
  Encoder(device::Device& device, const model::BackboneSpec& spec) : device_(device), spec_(spec) {}

  device::Device& device_;
  const model::BackboneSpec spec_;
  uint64_t num_tenants_ = 0;
  runtime::PassLimits pass_limits_;
  std::unique_ptr<model::WeightStore> weights_;
  std::unique_ptr<backbone::Backbone> backbone_;
  std::unique_ptr<runtime::GemmScheduler> gemms_;
  std::shared_ptr<const plan::CostTables> costs_;
  std::unique_ptr<device::Stream> stream_;  // a MeteredStream after meter()
  Batch sample_;                            // of launch_sample(), kept until the pass has run
};

// All GEMMs of a forward pass in order. Each has its own weights unless the model's layers share
// them, so that the floor reads as much memory as the pass. Errors: as bare_gemms().
Result<std::unique_ptr<Bare>> encoder_floor(const Hardware& on, const model::BackboneSpec& spec,
                                            const EncoderCase& c);

}  // namespace itif::bench
