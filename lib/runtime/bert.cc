// BERT: post-LayerNorm encoder with learned positions. Source: Devlin et al., "BERT: Pre-training of
// Deep Bidirectional Transformers", 2019; tensor names and order of operations as transformers'
// BertModel.
//
// Every operator runs once a batch for all tenants: GEMMs by tenant ranges, memory-bound operators with
// each row's slot (ITIF's weights rotation). Query, key and value are one GEMM.
#include <cmath>
#include <string>

#include "runtime/backbone.h"

namespace itif::runtime {
namespace {

using model::BackboneSpec;
using model::Storage;
using model::WeightKind;

// Where each weight kind stands in weight_kinds().
enum EmbeddingKind : size_t {
  kWord,
  kPosition,
  kType,
  kEmbedGamma,
  kEmbedBeta,
  kNumEmbeddingKinds
};
enum LayerKind : size_t {
  kQkvWeight,
  kQkvBias,
  kOutWeight,
  kOutBias,
  kAttentionGamma,
  kAttentionBeta,
  kUpWeight,
  kUpBias,
  kDownWeight,
  kDownBias,
  kFfnGamma,
  kFfnBeta,
  kNumLayerKinds
};

struct Shapes {
  device::GemmShape qkv, out, up, down;
  explicit Shapes(const BackboneSpec& spec)
      : qkv{3 * spec.hidden, spec.hidden},
        out{spec.hidden, spec.hidden},
        up{spec.intermediate, spec.hidden, spec.activation},
        down{spec.hidden, spec.intermediate} {}
};

std::vector<WeightKind> bert_weight_kinds(const BackboneSpec& spec) {
  const uint64_t hidden = spec.hidden;
  std::vector<WeightKind> kinds;
  const auto table = [&](const char* name, uint64_t rows) {
    kinds.push_back({std::string(name),
                     Storage::kTable,
                     {"embeddings." + std::string(name) + ".weight"},
                     {rows, hidden},
                     {}});
  };
  const auto vector = [&](const std::string& name, std::vector<std::string> sources,
                          uint64_t size) {
    kinds.push_back({name, Storage::kVector, std::move(sources), {size}, {}});
  };
  table("word_embeddings", spec.vocab);
  table("position_embeddings", spec.max_positions);
  table("token_type_embeddings", spec.type_vocab);
  vector("embeddings LayerNorm weight", {"embeddings.LayerNorm.weight"}, hidden);
  vector("embeddings LayerNorm bias", {"embeddings.LayerNorm.bias"}, hidden);

  const Shapes shapes(spec);
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const std::string base = "encoder.layer." + std::to_string(layer) + ".";
    const std::string title = "layer " + std::to_string(layer) + " ";
    const auto linear = [&](const std::string& name, const std::vector<std::string>& modules,
                            const Shape& source, const device::GemmShape& shape) {
      std::vector<std::string> weights, biases;
      for (const std::string& module : modules) {
        weights.push_back(base + module + ".weight");
        biases.push_back(base + module + ".bias");
      }
      kinds.push_back({title + name + " weight", Storage::kMatrix, weights, source, shape});
      vector(title + name + " bias", biases, source[0]);
    };
    const auto norm = [&](const std::string& module) {
      for (const char* part : {"weight", "bias"})
        vector(title + module + " " + part, {base + module + "." + part}, hidden);
    };
    linear("attention.qkv", {"attention.self.query", "attention.self.key", "attention.self.value"},
           {hidden, hidden}, shapes.qkv);
    linear("attention.output.dense", {"attention.output.dense"}, {hidden, hidden}, shapes.out);
    norm("attention.output.LayerNorm");
    linear("intermediate.dense", {"intermediate.dense"}, {spec.intermediate, hidden}, shapes.up);
    linear("output.dense", {"output.dense"}, {hidden, spec.intermediate}, shapes.down);
    norm("output.LayerNorm");
  }
  return kinds;
}

class Bert final : public Backbone {
 public:
  static Result<std::unique_ptr<Backbone>> make(device::Device& device, const BackboneSpec& spec,
                                                uint32_t max_tokens) {
    std::unique_ptr<Bert> bert(new Bert(spec, Shapes(spec)));
    for (Gemm* gemm : {&bert->qkv_, &bert->out_, &bert->up_, &bert->down_}) {
      ITIF_ASSIGN(gemm->handle, device.prepare(gemm->shape, max_tokens));
    }
    const size_t rows = static_cast<size_t>(max_tokens) + device.row_slack();
    const size_t act = rows * dtype_bytes(device.info().compute);
    const size_t wide = std::max<size_t>(3 * static_cast<size_t>(spec.hidden), spec.intermediate);
    ITIF_ASSIGN(bert->ids_, device.allocate(rows * sizeof(int32_t)));
    ITIF_ASSIGN(bert->hidden_, device.allocate(act * spec.hidden));
    ITIF_ASSIGN(bert->context_, device.allocate(act * spec.hidden));
    ITIF_ASSIGN(bert->projected_, device.allocate(act * spec.hidden));
    ITIF_ASSIGN(bert->wide_, device.allocate(act * wide));
    return bert;
  }

  BackboneOutputs forward(device::Stream& stream, const model::WeightStore& weights,
                          const BackboneInputs& inputs) noexcept override {
    auto* ids = reinterpret_cast<int32_t*>(ids_->data());
    stream.gather_ids({.pieces = inputs.pieces, .ids = ids, .vocab_size = spec_.vocab});
    stream.embed_layer_norm({.ids = ids,
                             .positions = inputs.positions,
                             .token_types = inputs.token_types,
                             .ranges = inputs.ranges,
                             .word = weights.slab(kWord),
                             .position = weights.slab(kPosition),
                             .token_type = weights.slab(kType),
                             .gamma = weights.slab(kEmbedGamma),
                             .beta = weights.slab(kEmbedBeta),
                             .epsilon = spec_.layer_norm_eps,
                             .hidden = spec_.hidden,
                             .out = hidden_->data()});
    for (uint32_t layer = 0; layer < spec_.layers; ++layer)
      run_layer(stream, weights, inputs, kNumEmbeddingKinds + layer * kNumLayerKinds);
    return {hidden_->data(), ids};
  }

  uint64_t workspace_bytes() const override {
    return ids_->bytes() + hidden_->bytes() + context_->bytes() + projected_->bytes() +
           wide_->bytes();
  }

 private:
  struct Gemm {
    device::GemmShape shape;
    device::GemmHandle handle = nullptr;
  };
  Bert(const BackboneSpec& spec, const Shapes& shapes)
      : spec_(spec), qkv_{shapes.qkv}, out_{shapes.out}, up_{shapes.up}, down_{shapes.down} {}

  // hidden_ → hidden_; `base` is the layer's first weight kind.
  void run_layer(device::Stream& stream, const model::WeightStore& weights,
                 const BackboneInputs& inputs, size_t base) noexcept {
    const auto multiply = [&](const device::Buffer& a, size_t kind, const Gemm& gemm,
                              device::Buffer& out) {
      stream.gemm({.a = a.data(),
                   .weights = weights.slab(base + kind),
                   .bias = weights.slab(base + kind + 1),
                   .out = out.data(),
                   .n = gemm.shape.n,
                   .k = gemm.shape.k,
                   .activation = gemm.shape.activation,
                   .ranges = inputs.ranges,
                   .prepared = gemm.handle.get()});
    };
    const auto add_and_normalize = [&](size_t gamma) {
      stream.residual_layer_norm({.x = projected_->data(),
                                  .residual = hidden_->data(),
                                  .gamma = weights.slab(base + gamma),
                                  .beta = weights.slab(base + gamma + 1),
                                  .epsilon = spec_.layer_norm_eps,
                                  .hidden = spec_.hidden,
                                  .ranges = inputs.ranges,
                                  .out = hidden_->data()});
    };
    multiply(*hidden_, kQkvWeight, qkv_, *wide_);
    stream.attention({.qkv = wide_->data(),
                      .out = context_->data(),
                      .offsets = inputs.offsets,
                      .num_heads = spec_.heads,
                      .head_size = spec_.head_size(),
                      .scale = 1.0f / std::sqrt(static_cast<float>(spec_.head_size()))});
    multiply(*context_, kOutWeight, out_, *projected_);
    add_and_normalize(kAttentionGamma);
    multiply(*hidden_, kUpWeight, up_, *wide_);
    multiply(*wide_, kDownWeight, down_, *projected_);
    add_and_normalize(kFfnGamma);
  }

  const BackboneSpec spec_;
  Gemm qkv_, out_, up_, down_;
  std::unique_ptr<device::Buffer> ids_;
  std::unique_ptr<device::Buffer> hidden_;     // [T, hidden]
  std::unique_ptr<device::Buffer> context_;    // [T, hidden]
  std::unique_ptr<device::Buffer> projected_;  // [T, hidden]
  std::unique_ptr<device::Buffer> wide_;       // [T, 3·hidden] then [T, intermediate]
};

}  // namespace

const Family kBertFamily = {"bert", bert_weight_kinds, Bert::make};

}  // namespace itif::runtime
