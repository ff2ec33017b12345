#include "backbone/encoder_block.h"

#include <algorithm>

namespace itif::backbone {

using model::BackboneSpec;
using model::Source;
using model::Storage;
using model::WeightKind;

Source tensor(std::string_view prefix, const std::string& name) {
  Source source;
  const auto add = [&](const std::string& bare) {
    source.names.push_back(bare);
    if (!prefix.empty()) source.names.push_back(std::string(prefix) + "." + bare);
  };
  add(name);
  for (const auto& [now, then] :
       {std::pair<std::string_view, const char*>{"LayerNorm.weight", "LayerNorm.gamma"},
        {"LayerNorm.bias", "LayerNorm.beta"}})
    if (name.ends_with(now)) add(name.substr(0, name.size() - now.size()) + then);
  return source;
}

void append_norm(std::string_view prefix, const std::string& module, const std::string& title,
                 uint64_t size, std::vector<WeightKind>& kinds) {
  kinds.push_back({.name = title + " weight",
                   .storage = Storage::kVector,
                   .sources = {tensor(prefix, module + ".weight")},
                   .source_shape = {size},
                   .init = model::Init::kOne});
  kinds.push_back({.name = title + " bias",
                   .storage = Storage::kVector,
                   .sources = {tensor(prefix, module + ".bias")},
                   .source_shape = {size},
                   .init = model::Init::kZero});
}

void append_linear(std::string_view prefix, const std::vector<std::string>& modules,
                   const std::string& title, const device::GemmShape& shape,
                   std::vector<WeightKind>& kinds) {
  std::vector<Source> weights, biases;
  for (const std::string& module : modules) {
    weights.push_back(tensor(prefix, module + ".weight"));
    biases.push_back(tensor(prefix, module + ".bias"));
  }
  const uint64_t rows = shape.n / modules.size();
  kinds.push_back({.name = title + " weight",
                   .storage = Storage::kMatrix,
                   .sources = std::move(weights),
                   .source_shape = {rows, shape.k},
                   .gemm = shape});
  kinds.push_back({.name = title + " bias",
                   .storage = Storage::kVector,
                   .sources = std::move(biases),
                   .source_shape = {rows}});
}

void append_block(const BackboneSpec& spec, std::string_view prefix, const std::string& base,
                  const std::string& title, const BlockNames& names, std::vector<WeightKind>& kinds,
                  const AttentionFactory& attention) {
  const BlockShapes shapes(spec);
  const auto module = [&](std::string_view name) { return base + std::string(name); };
  const auto titled = [&](std::string_view name) { return title + " " + std::string(name); };
  append_linear(prefix, {module(names.query), module(names.key), module(names.value)},
                titled("attention.qkv"), shapes.qkv, kinds);
  if (!names.has_qkv_bias)
    for (Source& source : kinds.back().sources) source.names.clear();
  append_linear(prefix, {module(names.attention_output)}, titled(names.attention_output),
                shapes.out, kinds);
  append_norm(prefix, module(names.attention_norm), titled(names.attention_norm), spec.hidden,
              kinds);
  append_linear(prefix, {module(names.up)}, titled(names.up), shapes.up, kinds);
  append_linear(prefix, {module(names.down)}, titled(names.down), shapes.down, kinds);
  append_norm(prefix, module(names.output_norm), titled(names.output_norm), spec.hidden, kinds);
  if (attention.kinds != nullptr)
    for (WeightKind& kind : attention.kinds(spec, prefix, base, title))
      kinds.push_back(std::move(kind));
}

size_t num_block_kinds(const BackboneSpec& spec, const AttentionFactory& attention) {
  return kNumBlockKinds + (attention.kinds ? attention.kinds(spec, {}, {}, {}).size() : 0);
}

EncoderBlock::EncoderBlock(const BackboneSpec& spec, FusionMode fusion_mode) : spec_(spec) {
  const BlockShapes shapes(spec);
  out_.shape = in_fusion_mode(shapes.out, fusion_mode);
  up_.shape = in_fusion_mode(shapes.up, fusion_mode);
  down_.shape = in_fusion_mode(shapes.down, fusion_mode);
}

Result<std::unique_ptr<EncoderBlock>> EncoderBlock::make(device::Device& device,
                                                         const BackboneSpec& spec,
                                                         const MakeOptions& options,
                                                         const AttentionFactory& attention) {
  std::unique_ptr<EncoderBlock> block(new EncoderBlock(spec, options.fusion_mode));
  ITIF_ASSIGN(block->attention_, attention.make(device, spec, options));
  for (PreparedShape* gemm : {&block->out_, &block->up_, &block->down_}) {
    ITIF_ASSIGN(gemm->handle, device.prepare(gemm->shape, options.max_rows));
  }
  const size_t rows = static_cast<size_t>(options.max_rows) + device.row_slack();
  const size_t act = rows * dtype_bytes(device.info().compute.activations);
  const size_t wide = std::max(block->attention_->scratch_width(), spec.intermediate);
  ITIF_ASSIGN(block->context_, device.allocate(act * spec.hidden));
  ITIF_ASSIGN(block->projected_, device.allocate(act * spec.hidden));
  ITIF_ASSIGN(block->wide_, device.allocate(act * wide));
  return block;
}

// The GEMM adds the bias, or the operator that adds the residual does.
Addend EncoderBlock::addend(device::Stream& stream, const model::WeightView& weights,
                            const Pass& pass, const PreparedShape& gemm, size_t kind,
                            const void* a) noexcept {
  if (gemm.shape.has_bias) {
    launch_linear(stream, weights, pass, gemm, kind, a, projected_->data());
    return {.rows = projected_->data()};
  }
  stream.launch(product(weights[kind], pass.gemm(kind), gemm, a, projected_->data()));
  return {.rows = projected_->data(), .bias = weights[kind + 1]};
}

Addend EncoderBlock::launch_attention(device::Stream& stream, const model::WeightView& weights,
                                      const Pass& pass, size_t base, const void* x) noexcept {
  attention_->launch(stream, weights, pass, base,
                     {.x = x, .scratch = wide_->data(), .context = context_->data()});
  return addend(stream, weights, pass, out_, base + kOutWeight, context_->data());
}

Addend EncoderBlock::launch_feed_forward(device::Stream& stream, const model::WeightView& weights,
                                         const Pass& pass, size_t base, const void* x) noexcept {
  launch_linear(stream, weights, pass, up_, base + kUpWeight, x, wide_->data());
  return addend(stream, weights, pass, down_, base + kDownWeight, wide_->data());
}

void EncoderBlock::launch(device::Stream& stream, const model::WeightView& weights,
                          const Pass& pass, size_t base, void* hidden) noexcept {
  const auto add_and_normalize = [&](const Addend& addend, size_t gamma) {
    stream.launch(kernels::ResidualLayerNorm{.x = addend.rows,
                                             .bias = addend.bias,
                                             .residual = hidden,
                                             .gamma = weights[base + gamma],
                                             .beta = weights[base + gamma + 1],
                                             .epsilon = spec_.layer_norm_eps,
                                             .hidden = spec_.hidden,
                                             .ranges = pass.ranges,
                                             .out = hidden,
                                             .has_thesis_grid = is_thesis(out_)});
  };
  add_and_normalize(launch_attention(stream, weights, pass, base, hidden), kAttentionGamma);
  add_and_normalize(launch_feed_forward(stream, weights, pass, base, hidden), kFfnGamma);
}

uint64_t EncoderBlock::workspace_bytes() const {
  return context_->bytes() + projected_->bytes() + wide_->bytes() + attention_->workspace_bytes();
}

}  // namespace itif::backbone
