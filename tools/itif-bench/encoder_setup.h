// A backbone with the random weights of several tenants, ready to run batches, and the same batch's
// GEMMs alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "bare_gemm.h"
#include "device/device.h"
#include "model/spec.h"
#include "model/weight_store.h"

namespace itif::bench {

// BERT-base: 12 layers, hidden 768, 12 heads, intermediate 3072.
model::BackboneSpec bert_base();

// lengths[t]: the segments of tenant t.
struct EncoderCase {
  std::string name;
  std::vector<std::vector<uint32_t>> lengths;
  uint32_t num_tokens() const;
};

class Encoder {
 public:
  static Result<std::unique_ptr<Encoder>> make(device::Device& device,
                                               const model::BackboneSpec& spec,
                                               uint32_t num_tenants, uint32_t max_tokens);

  // Host arrays of a batch; token ids are seeded by each segment's place.
  struct Batch {
    std::vector<uint16_t> ids;
    std::vector<kernels::IdPiece> pieces;
    std::vector<uint32_t> positions;
    std::vector<uint32_t> offsets;  // [segments + 1]
    std::vector<kernels::SegmentRows> segments;
    std::vector<kernels::RowRange> ranges;
    backbone::Pass pass() const;
  };
  static Batch make_batch(const EncoderCase& c, uint32_t vocab);
  // The batch of one of its segments.
  static Batch alone(const Batch& batch, size_t segment);

  // Runs and waits.
  Status forward(const Batch& batch);
  // The last hidden states as f32, [num_tokens, hidden].
  Result<std::vector<float>> hidden_states(const Batch& batch);

 private:
  Encoder(device::Device& device, const model::BackboneSpec& spec) : device_(device), spec_(spec) {}
  Status fill_slot(uint32_t slot);

  device::Device& device_;
  const model::BackboneSpec spec_;
  std::unique_ptr<model::WeightStore> weights_;
  std::unique_ptr<backbone::Backbone> backbone_;
  std::unique_ptr<device::Stream> stream_;
};

// All GEMMs of a forward pass in order, each with weights of its own as in the model, so that both
// read as much memory.
class EncoderFloor {
 public:
  EncoderFloor(DType type, const model::BackboneSpec& spec, const EncoderCase& c, uint32_t threads);
  void run();

 private:
  std::vector<std::unique_ptr<BareGemm>> gemms_;
};

}  // namespace itif::bench
