#include "backbone/marian_decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backbone/encoder_block.h"
#include "backbone/marian_tensors.h"
#include "base/check.h"

namespace itif::backbone::marian {
namespace {

using model::BackboneSpec;
using model::Storage;
using model::WeightKind;

constexpr BlockNames kEncoderNames = {.query = "self_attn.q_proj",
                                      .key = "self_attn.k_proj",
                                      .value = "self_attn.v_proj",
                                      .attention_output = "self_attn.out_proj",
                                      .attention_norm = "self_attn_layer_norm",
                                      .up = "fc1",
                                      .down = "fc2",
                                      .output_norm = "final_layer_norm"};

// Weight kinds of the whole model. The blocks of the encoder follow, then those of the decoder.
enum Kind : size_t { kEmbedding, kOutput, kOutputBias, kBlocks };

// Weight kinds of a decoder block. A bias follows its weight, a beta its gamma.
enum DecoderKind : size_t {
  kSelfQkv = 0,
  kSelfOut = 2,
  kSelfNorm = 4,
  kCrossQuery = 6,
  kCrossKv = 8,
  kCrossOut = 10,
  kCrossNorm = 12,
  kUp = 14,
  kDown = 16,
  kFfnNorm = 18,
  kNumDecoderKinds = 20
};

struct DecoderShapes {
  device::GemmShape qkv, square, kv, up, down, output;
  explicit DecoderShapes(const BackboneSpec& spec)
      : qkv{3 * spec.hidden, spec.hidden},
        square{spec.hidden, spec.hidden},
        kv{2 * spec.hidden, spec.hidden},
        up{static_cast<uint32_t>(spec.number(kIntermediate)), spec.hidden, spec.activation},
        down{spec.hidden, static_cast<uint32_t>(spec.number(kIntermediate))},
        output{.n = spec.vocab, .k = spec.hidden, .f32_out = true} {}
};

uint32_t decoder_layers(const BackboneSpec& spec) {
  return static_cast<uint32_t>(spec.number(kLayers));
}

uint64_t kv_block_bytes(const BackboneSpec& spec, DType type) {
  return uint64_t{decoder_layers(spec)} * 2 * Decoder::kBlockTokens * spec.hidden *
         dtype_bytes(type);
}

class MarianDecoder final : public Decoder {
 public:
  static Result<std::unique_ptr<Decoder>> make(device::Device& device, const BackboneSpec& spec,
                                               const DecoderOptions& options) {
    std::unique_ptr<MarianDecoder> decoder(new MarianDecoder(spec));
    ITIF_TRY(decoder->allocate(device, options));
    return decoder;
  }

  void launch_encode(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                     std::span<const uint32_t> kv_rows) noexcept override {
    DCHECK(kv_rows.size() == pass.num_rows);
    gather(stream, pass.pieces);
    if (!pass.has_more_inputs) stream.end_inputs();
    embed(stream, weights, pass.positions, pass.ranges);
    for (uint32_t layer = 0; layer < spec_.layers; ++layer)
      block_->launch(stream, weights, pass, kBlocks + layer * kNumBlockKinds, hidden_->data());
    for (uint32_t layer = 0; layer < layers_; ++layer) {
      launch_linear(stream, weights, pass, kv_, block_of(layer) + kCrossKv, hidden_->data(),
                    wide_->data());
      append(stream, wide_->data(), 0, 2, kv_rows, layer);
    }
  }

  void launch_copies(device::Stream& stream,
                     std::span<const kernels::KvCopy> copies) noexcept override {
    if (!copies.empty()) stream.launch(kernels::CopyKv{.copies = copies, .pool = pool_});
  }

  StepResult launch_step(device::Stream& stream, const model::WeightView& weights,
                         const DecoderStep& step) noexcept override {
    const auto rows = static_cast<uint32_t>(step.tokens.size());
    const kernels::IdPiece tokens{reinterpret_cast<const std::byte*>(step.tokens.data()), rows, 0,
                                  4};
    const Pass pass{.num_rows = rows,
                    .pieces = {},
                    .positions = {},
                    .token_types = {},
                    .segments = {},
                    .ranges = step.ranges,
                    .has_bucket = step.has_bucket,
                    .gemm_schedule = step.gemm_schedule,
                    .joined = step.joined};
    gather(stream, {&tokens, 1});
    embed(stream, weights, step.positions, step.ranges);
    for (uint32_t layer = 0; layer < layers_; ++layer)
      launch_block(stream, weights, pass, step, layer);
    const GemmRanges ranges = pass.gemm(kOutput);
    stream.launch(kernels::GroupedGemm{.a = hidden_->data(),
                                       .weights = weights[kOutput],
                                       .bias = weights[kOutputBias],
                                       .out = logits_->data(),
                                       .n = output_.shape.n,
                                       .k = output_.shape.k,
                                       .ranges = ranges.ranges,
                                       .schedule = ranges.schedule,
                                       .prepared = output_.handle.get(),
                                       .f32_out = true});
    // A separate graph segment: its rows and candidate count differ between otherwise equal steps.
    stream.end_graph_segment();
    auto* scores = reinterpret_cast<float*>(scores_->data());
    auto* found = reinterpret_cast<int32_t*>(found_->data());
    stream.launch(kernels::TopTokens{
        .logits = reinterpret_cast<float*>(logits_->data()),
        .rows = step.beams.empty() ? rows : static_cast<uint32_t>(step.beams.size()),
        .chosen = step.beams,
        .vocab = spec_.vocab,
        .banned_of = step.banned_of,
        .banned = step.banned,
        .count = step.num_candidates,
        .log_probabilities = scores,
        .tokens = found});
    return {scores, found};
  }

  uint64_t workspace_bytes() const override {
    uint64_t bytes = block_->workspace_bytes();
    for (const auto* buffer : {&ids_, &hidden_, &positions_, &context_, &projected_, &wide_,
                               &logits_, &scores_, &found_})
      bytes += (*buffer)->bytes();
    return bytes;
  }
  uint64_t cache_bytes() const override { return cache_->bytes(); }
  uint32_t num_blocks() const override { return num_blocks_; }

 private:
  explicit MarianDecoder(const BackboneSpec& spec)
      : spec_(spec),
        layers_(decoder_layers(spec)),
        heads_(static_cast<uint32_t>(spec.number(marian::kHeads))),
        scale_(spec.number(kScaleEmbedding) ? std::sqrt(static_cast<float>(spec.hidden)) : 1.0f) {
    const DecoderShapes shapes(spec);
    qkv_.shape = shapes.qkv;
    square_.shape = shapes.square;
    kv_.shape = shapes.kv;
    up_.shape = shapes.up;
    down_.shape = shapes.down;
    output_.shape = shapes.output;
  }

  Status allocate(device::Device& device, const DecoderOptions& options) {
    const uint32_t step_rows = options.max_step_rows;
    const uint32_t most = std::max(options.max_rows, step_rows);
    ITIF_ASSIGN(block_, EncoderBlock::make(device, spec_, {.max_rows = options.max_rows}));
    ITIF_ASSIGN(kv_.handle, device.prepare(kv_.shape, options.max_rows));
    for (PreparedShape* gemm : {&qkv_, &square_, &up_, &down_, &output_}) {
      ITIF_ASSIGN(gemm->handle, device.prepare(gemm->shape, step_rows));
    }
    const size_t element = element_bytes_ = dtype_bytes(device.info().compute.activations);
    const size_t hidden = spec_.hidden;
    const size_t all = size_t{most} + device.row_slack();
    const size_t step = size_t{step_rows} + device.row_slack();
    ITIF_ASSIGN(ids_, device.allocate(all * sizeof(int32_t)));
    ITIF_ASSIGN(hidden_, device.allocate(all * hidden * element));
    ITIF_ASSIGN(
        wide_, device.allocate(std::max({all * 2 * hidden, step * 3 * hidden, step * up_.shape.n}) *
                               element));
    ITIF_ASSIGN(context_, device.allocate(step * hidden * element));
    ITIF_ASSIGN(projected_, device.allocate(step * hidden * element));
    ITIF_ASSIGN(logits_, device.allocate(step * spec_.vocab * sizeof(float)));
    ITIF_ASSIGN(scores_, device.allocate(step * kernels::kMaxTopTokens * sizeof(float)));
    ITIF_ASSIGN(found_, device.allocate(step * kernels::kMaxTopTokens * sizeof(int32_t)));
    const uint64_t usable_blocks = max_blocks(options.max_beams, spec_.max_positions);
    const uint64_t block_bytes = kv_block_bytes(spec_, device.info().compute.activations);
    num_blocks_ =
        static_cast<uint32_t>(std::min(usable_blocks, options.max_cache_bytes / block_bytes));
    ITIF_ASSIGN(cache_, device.allocate(std::max<uint64_t>(1, num_blocks_) * block_bytes));
    pool_ = {.base = cache_->data(),
             .num_layers = layers_,
             .block_tokens = kBlockTokens,
             .hidden = spec_.hidden};
    const std::vector<float> table = sinusoids(spec_.max_positions, spec_.hidden);
    ITIF_ASSIGN(positions_, device.allocate(table.size() * sizeof(float)));
    return device.upload({reinterpret_cast<const std::byte*>(table.data()), DType::kF32,
                          Shape{spec_.max_positions, spec_.hidden}},
                         DType::kF32, positions_->data());
  }

  size_t block_of(uint32_t layer) const {
    return kBlocks + spec_.layers * kNumBlockKinds + layer * kNumDecoderKinds;
  }

  void gather(device::Stream& stream, std::span<const kernels::IdPiece> pieces) noexcept {
    stream.launch(kernels::GatherIds{.pieces = pieces,
                                     .ids = reinterpret_cast<int32_t*>(ids_->data()),
                                     .vocab_size = spec_.vocab});
  }
  void embed(device::Stream& stream, const model::WeightView& weights,
             std::span<const uint32_t> positions,
             std::span<const kernels::RowRange> ranges) noexcept {
    stream.launch(
        kernels::EmbedPositions{.ids = reinterpret_cast<const int32_t*>(ids_->data()),
                                .positions = positions,
                                .ranges = ranges,
                                .word = weights[kEmbedding],
                                .position = reinterpret_cast<const float*>(positions_->data()),
                                .scale = scale_,
                                .hidden = spec_.hidden,
                                .out = hidden_->data()});
  }

  // Each row has `parts` vectors: K is vector `first`, V the next one.
  void append(device::Stream& stream, const std::byte* rows, size_t first, size_t parts,
              std::span<const uint32_t> kv_rows, uint32_t layer) noexcept {
    const size_t vector_bytes = spec_.hidden * element_bytes_;
    stream.launch(kernels::AppendKv{.key = rows + first * vector_bytes,
                                    .value = rows + (first + 1) * vector_bytes,
                                    .row_stride = parts * spec_.hidden,
                                    .kv_rows = kv_rows,
                                    .pool = pool_,
                                    .layer = layer});
  }

  void launch_block(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                    const DecoderStep& step, uint32_t layer) noexcept {
    const size_t base = block_of(layer);
    std::byte* hidden = hidden_->data();
    std::byte* wide = wide_->data();
    const auto attend = [&](size_t query_stride, std::span<const kernels::KvTable> tables) {
      stream.launch(kernels::CachedAttention{
          .query = wide,
          .query_stride = query_stride,
          .out = context_->data(),
          .tables = tables,
          .blocks = step.blocks,
          .max_blocks = step.max_blocks,
          .pool = pool_,
          .layer = layer,
          .num_heads = heads_,
          .head_size = spec_.hidden / heads_,
          .scale = 1.0f / std::sqrt(static_cast<float>(spec_.hidden / heads_))});
    };
    const auto add_and_normalize = [&](size_t gamma) {
      stream.launch(kernels::ResidualLayerNorm{.x = projected_->data(),
                                               .residual = hidden,
                                               .gamma = weights[base + gamma],
                                               .beta = weights[base + gamma + 1],
                                               .epsilon = spec_.layer_norm_eps,
                                               .hidden = spec_.hidden,
                                               .ranges = pass.ranges,
                                               .out = hidden});
    };
    launch_linear(stream, weights, pass, qkv_, base + kSelfQkv, hidden, wide);
    append(stream, wide, 1, 3, step.kv_rows, layer);
    attend(3 * size_t{spec_.hidden}, step.history);
    launch_linear(stream, weights, pass, square_, base + kSelfOut, context_->data(),
                  projected_->data());
    add_and_normalize(kSelfNorm);
    launch_linear(stream, weights, pass, square_, base + kCrossQuery, hidden, wide);
    attend(spec_.hidden, step.memory);
    launch_linear(stream, weights, pass, square_, base + kCrossOut, context_->data(),
                  projected_->data());
    add_and_normalize(kCrossNorm);
    launch_linear(stream, weights, pass, up_, base + kUp, hidden, wide);
    launch_linear(stream, weights, pass, down_, base + kDown, wide, projected_->data());
    add_and_normalize(kFfnNorm);
  }

  const BackboneSpec spec_;
  const uint32_t layers_;
  const uint32_t heads_;
  const float scale_;         // factor of embeddings
  size_t element_bytes_ = 0;  // of the activation type
  PreparedShape qkv_, square_, kv_, up_, down_, output_;
  std::unique_ptr<EncoderBlock> block_;
  kernels::KvPool pool_;
  uint32_t num_blocks_ = 0;
  std::unique_ptr<device::Buffer> cache_;
  std::unique_ptr<device::Buffer> positions_;            // f32 [max_positions, hidden]
  std::unique_ptr<device::Buffer> ids_;                  // of the sources, or of the step
  std::unique_ptr<device::Buffer> hidden_;               // [rows of ids_, hidden]
  std::unique_ptr<device::Buffer> wide_;                 // Q, K, V, or feed-forward activations
  std::unique_ptr<device::Buffer> context_, projected_;  // [R, hidden]
  std::unique_ptr<device::Buffer> logits_;               // f32 [R, vocab]
  std::unique_ptr<device::Buffer> scores_, found_;       // [R, kMaxTopTokens]
};

}  // namespace

std::vector<WeightKind> weight_kinds(const BackboneSpec& spec) {
  constexpr std::string_view kPrefix = "model";
  const DecoderShapes shapes(spec);
  const model::Source shared{embedding_names()};  // tied: stored under any of these names
  std::vector<WeightKind> kinds;
  kinds.push_back({.name = "shared embedding",
                   .storage = Storage::kTable,
                   .sources = {shared},
                   .source_shape = {spec.vocab, spec.hidden}});
  kinds.push_back({.name = "output weight",
                   .storage = Storage::kMatrix,
                   .sources = {shared},
                   .source_shape = {spec.vocab, spec.hidden},
                   .gemm = shapes.output});
  // -inf: tokens beyond a tenant's smaller vocabulary are never generated.
  kinds.push_back({.name = "output bias",
                   .storage = Storage::kVector,
                   .sources = {{{"final_logits_bias"}}},
                   .source_shape = {1, spec.vocab},
                   .init = model::Init::kZero,
                   .fill = -std::numeric_limits<float>::infinity()});
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    append_block(spec, kPrefix, "encoder.layers." + std::to_string(layer) + ".",
                 "encoder layer " + std::to_string(layer), kEncoderNames, kinds);
  for (uint32_t layer = 0; layer < decoder_layers(spec); ++layer) {
    const std::string base = "decoder.layers." + std::to_string(layer) + ".";
    const std::string title = "decoder layer " + std::to_string(layer) + " ";
    const auto linear = [&](const std::vector<std::string>& modules, const std::string& name,
                            const device::GemmShape& shape) {
      std::vector<std::string> full;
      for (const std::string& module : modules) full.push_back(base + module);
      append_linear(kPrefix, full, title + name, shape, kinds);
    };
    const auto norm = [&](const std::string& module) {
      append_norm(kPrefix, base + module, title + module, spec.hidden, kinds);
    };
    linear({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}, "self_attn.qkv",
           shapes.qkv);
    linear({"self_attn.out_proj"}, "self_attn.out_proj", shapes.square);
    norm("self_attn_layer_norm");
    linear({"encoder_attn.q_proj"}, "encoder_attn.q_proj", shapes.square);
    linear({"encoder_attn.k_proj", "encoder_attn.v_proj"}, "encoder_attn.kv", shapes.kv);
    linear({"encoder_attn.out_proj"}, "encoder_attn.out_proj", shapes.square);
    norm("encoder_attn_layer_norm");
    linear({"fc1"}, "fc1", shapes.up);
    linear({"fc2"}, "fc2", shapes.down);
    norm("final_layer_norm");
  }
  return kinds;
}

std::vector<GemmUse> gemms(const BackboneSpec& spec) {
  const BlockShapes encoder(spec);
  const DecoderShapes decoder(spec);
  const uint32_t layers = decoder_layers(spec);
  std::vector<GemmUse> uses;
  for (const device::GemmShape& shape : {encoder.qkv, encoder.out, encoder.up, encoder.down})
    uses.push_back({.shape = shape, .times = spec.layers});
  uses.push_back({.shape = decoder.kv, .times = layers});
  uses.push_back({.shape = decoder.qkv, .times = layers, .in_step = true});
  uses.push_back({.shape = decoder.square, .times = 3 * layers, .in_step = true});
  for (const device::GemmShape& shape : {decoder.up, decoder.down})
    uses.push_back({.shape = shape, .times = layers, .in_step = true});
  uses.push_back({.shape = decoder.output, .times = 1, .in_step = true});
  return uses;
}

Result<std::unique_ptr<Decoder>> make_decoder(device::Device& device, const BackboneSpec& spec,
                                              const DecoderOptions& options) {
  return MarianDecoder::make(device, spec, options);
}

}  // namespace itif::backbone::marian
