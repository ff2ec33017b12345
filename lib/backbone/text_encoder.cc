#include "backbone/text_encoder.h"

namespace itif::backbone {
namespace {

using model::BackboneSpec;
using model::Storage;
using model::WeightKind;

// Index of each weight kind in text_encoder_kinds().
struct Kinds {
  size_t word = 0, position = 1;
  size_t type;  // only with token types
  size_t gamma, beta;
  size_t projection;  // weight and bias; only with a projection
  size_t blocks;
  size_t per_block;

  Kinds(const BackboneSpec& spec, const TextEncoderLayout& layout)
      : type(2),
        gamma(spec.type_vocab > 0 ? 3 : 2),
        beta(gamma + 1),
        projection(beta + 1),
        blocks(layout.projection.empty() ? projection : projection + 2),
        per_block(num_block_kinds(spec, layout.attention)) {}
};

class TextEncoder final : public Backbone {
 public:
  static Result<std::unique_ptr<Backbone>> make(device::Device& device, const BackboneSpec& spec,
                                                const TextEncoderLayout& layout,
                                                const MakeOptions& options) {
    std::unique_ptr<TextEncoder> encoder(new TextEncoder(spec, layout, options.fusion_mode));
    ITIF_ASSIGN(encoder->block_, EncoderBlock::make(device, spec, options, layout.attention));
    const size_t rows = static_cast<size_t>(options.max_rows) + device.row_slack();
    const size_t act = rows * dtype_bytes(device.info().compute.activations);
    ITIF_ASSIGN(encoder->ids_, device.allocate(rows * sizeof(int32_t)));
    ITIF_ASSIGN(encoder->hidden_, device.allocate(act * spec.hidden));
    if (!layout.projection.empty()) {
      PreparedShape& gemm = encoder->projection_;
      ITIF_ASSIGN(gemm.handle, device.prepare(gemm.shape, options.max_rows));
      ITIF_ASSIGN(encoder->embedded_, device.allocate(act * layout.embedding));
    }
    return encoder;
  }

  Hidden launch(device::Stream& stream, const model::WeightView& weights,
                const Pass& pass) noexcept override {
    auto* ids = reinterpret_cast<int32_t*>(ids_->data());
    stream.launch(kernels::GatherIds{.pieces = pass.pieces, .ids = ids, .vocab_size = spec_.vocab});
    stream.end_inputs();
    std::byte* embedded = embedded_ ? embedded_->data() : hidden_->data();
    stream.launch(kernels::EmbedLayerNorm{
        .ids = ids,
        .positions = pass.positions,
        .token_types = pass.token_types,
        .ranges = pass.ranges,
        .word = weights[kinds_.word],
        .position = weights[kinds_.position],
        .token_type = spec_.type_vocab > 0 ? weights[kinds_.type] : kernels::Slab{},
        .gamma = weights[kinds_.gamma],
        .beta = weights[kinds_.beta],
        .epsilon = spec_.layer_norm_eps,
        .hidden = layout_.embedding,
        .out = embedded});
    if (embedded_)
      launch_linear(stream, weights, pass, projection_, kinds_.projection, embedded,
                    hidden_->data());
    for (const uint32_t block : layout_.block_of_layer)
      block_->launch(stream, weights, pass, kinds_.blocks + block * kinds_.per_block,
                     hidden_->data());
    return {hidden_->data(), ids};
  }

  uint64_t workspace_bytes() const override {
    return ids_->bytes() + hidden_->bytes() + (embedded_ ? embedded_->bytes() : 0) +
           block_->workspace_bytes();
  }

 private:
  TextEncoder(const BackboneSpec& spec, const TextEncoderLayout& layout, FusionMode fusion_mode)
      : spec_(spec), layout_(layout), kinds_(spec, layout) {
    projection_.shape = in_fusion_mode({.n = spec.hidden, .k = layout.embedding}, fusion_mode);
  }

  const BackboneSpec spec_;
  const TextEncoderLayout layout_;
  const Kinds kinds_;
  PreparedShape projection_;
  std::unique_ptr<EncoderBlock> block_;
  std::unique_ptr<device::Buffer> ids_;
  std::unique_ptr<device::Buffer> embedded_;  // [T, embedding]; null: no projection
  std::unique_ptr<device::Buffer> hidden_;    // [T, hidden]
};

}  // namespace

TextEncoderLayout plain_layout(const BackboneSpec& spec, std::string_view prefix,
                               const std::string& stem, const BlockNames& names) {
  TextEncoderLayout layout{.prefix = prefix,
                           .names = names,
                           .blocks = {},
                           .block_of_layer = {},
                           .embedding = spec.hidden};
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    layout.blocks.push_back(stem + std::to_string(layer) + ".");
    layout.block_of_layer.push_back(layer);
  }
  return layout;
}

std::vector<WeightKind> text_encoder_kinds(const BackboneSpec& spec,
                                           const TextEncoderLayout& layout) {
  std::vector<WeightKind> kinds;
  const auto table = [&](const std::string& name, uint64_t rows) {
    kinds.push_back({.name = name,
                     .storage = Storage::kTable,
                     .sources = {tensor(layout.prefix, "embeddings." + name + ".weight")},
                     .source_shape = {rows, layout.embedding}});
  };
  table("word_embeddings", spec.vocab);
  table("position_embeddings", spec.max_positions);
  if (spec.type_vocab > 0) table("token_type_embeddings", spec.type_vocab);
  append_norm(layout.prefix, "embeddings.LayerNorm", "embeddings LayerNorm", layout.embedding,
              kinds);
  if (!layout.projection.empty())
    append_linear(layout.prefix, {layout.projection}, "embedding projection",
                  {.n = spec.hidden, .k = layout.embedding}, kinds);
  for (size_t block = 0; block < layout.blocks.size(); ++block)
    append_block(spec, layout.prefix, layout.blocks[block], "layer " + std::to_string(block),
                 layout.names, kinds, layout.attention);
  return kinds;
}

std::vector<GemmUse> text_encoder_gemms(const BackboneSpec& spec, const TextEncoderLayout& layout) {
  const BlockShapes shapes(spec);
  const auto layers = static_cast<uint32_t>(layout.block_of_layer.size());
  std::vector<GemmUse> uses;
  if (!layout.projection.empty()) uses.push_back({{.n = spec.hidden, .k = layout.embedding}, 1});
  for (const device::GemmShape& shape : {shapes.qkv, shapes.out, shapes.up, shapes.down})
    uses.push_back({shape, layers, static_cast<uint32_t>(layout.blocks.size())});
  return uses;
}

Result<std::unique_ptr<Backbone>> make_text_encoder(device::Device& device,
                                                    const BackboneSpec& spec,
                                                    const TextEncoderLayout& layout,
                                                    const MakeOptions& options) {
  return TextEncoder::make(device, spec, layout, options);
}

}  // namespace itif::backbone
