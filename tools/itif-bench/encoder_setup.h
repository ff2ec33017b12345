// A backbone with the random weights of several tenants, ready to run batches, and the same batch's
// GEMMs alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "bare.h"
#include "device/device.h"
#include "device/metered_stream.h"
#include "model/spec.h"
#include "model/weight_store.h"
#include "plan/plan.h"
#include "runtime/gemm_scheduler.h"

namespace itif::bench {

// BERT-base: 12 layers, hidden 768, 12 heads, intermediate 3072.
model::BackboneSpec bert_base();

// lengths[t]: the segments of tenant t.
struct EncoderCase {
  std::string name;
  std::vector<std::vector<uint32_t>> lengths;
  uint32_t num_tokens() const;
};

// Cosine of two vectors.
double cosine(const float* a, const float* b, size_t count);

// Fills an acquired slot with the weights of tenant `tenant`, which are the same in every run.
Status fill_with_noise(device::Device& device, const model::WeightStore& weights, uint32_t slot,
                       uint32_t tenant);

struct EncoderOptions {
  uint32_t first_tenant = 0;
  backbone::Fidelity fidelity = backbone::Fidelity::kFused;
};

class Encoder {
 public:
  // Slot s holds the weights of tenant options.first_tenant + s, which are the same in every Encoder.
  static Result<std::unique_ptr<Encoder>> make(device::Device& device,
                                               const model::BackboneSpec& spec,
                                               uint32_t num_tenants, uint32_t max_tokens,
                                               const EncoderOptions& options = {});

  // Host arrays of a batch; token ids are seeded by each segment's place.
  struct Batch {
    std::vector<uint16_t> ids;
    std::vector<kernels::IdPiece> pieces;
    std::vector<uint32_t> positions;
    std::vector<uint32_t> offsets;  // [segments + 1]
    std::vector<kernels::SegmentRows> segments;
    std::vector<kernels::RowRange> ranges;
    // Of an image model, instead of ids: pixels of noise, in pieces as datagrams would bring them.
    struct Pictures {
      std::vector<std::vector<std::byte>> pixels;
      std::vector<std::vector<BytePiece>> pieces;
    };
    std::shared_ptr<const Pictures> pictures;  // what `images` points into
    std::vector<kernels::ImagePixels> images;
    backbone::Pass pass(runtime::GemmScheduler& gemms) const;
  };
  static Batch make_batch(const EncoderCase& c, uint32_t vocab);
  // The same requests, each padded to its tenant's longest.
  static Batch make_padded_batch(const EncoderCase& c, uint32_t vocab);
  // REQUIRES: every length is spec.max_tokens().
  static Batch make_images(const EncoderCase& c, const model::BackboneSpec& spec);
  // The batch of one of its segments.
  static Batch alone(const Batch& batch, size_t segment);

  // The batch of one tenant's segments, whose weights stand in `slot`. Reads `batch`'s ids.
  static Batch of_tenant(const Batch& batch, uint32_t tenant, uint32_t slot);
  // One pass of a plan over requests of seeded ids, padding included.
  static Batch of_pass(const plan::Plan& plan, const plan::Pass& pass, uint32_t vocab);

  // Runs and waits.
  Status forward(const Batch& batch);
  device::Stream& stream() { return *stream_; }
  // From now on launches are counted and timed; on a GPU operator by operator. The Encoder's.
  device::MeteredStream& meter(const Clock& clock);
  // Of device memory: all tenants' weights and the workspace.
  uint64_t bytes() const;
  // The last hidden states as f32, [num_tokens, hidden].
  Result<std::vector<float>> hidden_states(const Batch& batch);
  // Those of each tenant's last token, [ranges, hidden].
  Result<std::vector<float>> last_states(const Batch& batch);

 private:
  Encoder(device::Device& device, const model::BackboneSpec& spec) : device_(device), spec_(spec) {}

  device::Device& device_;
  const model::BackboneSpec spec_;
  uint64_t num_tenants_ = 0;
  std::unique_ptr<model::WeightStore> weights_;
  std::unique_ptr<backbone::Backbone> backbone_;
  std::unique_ptr<runtime::GemmScheduler> gemms_;
  std::unique_ptr<device::Stream> stream_;  // a MeteredStream after meter()
};

// All GEMMs of a forward pass in order, each with weights of its own unless the model's layers share
// them, so that both read as much memory. Errors: as bare_gemms().
Result<std::unique_ptr<Bare>> encoder_floor(const Hardware& on, const model::BackboneSpec& spec,
                                            const EncoderCase& c);

}  // namespace itif::bench
