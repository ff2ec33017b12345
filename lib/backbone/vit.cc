// ViT: a class token and the patches of an image as tokens, pre-LayerNorm blocks, a LayerNorm at
// the end. The patch embedding, a convolution whose windows do not overlap, is one GEMM over
// gathered pixels. Each LayerNorm operator first adds the output of the preceding half block to the
// hidden states.
// Source: Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021; tensor names and order of
// operations as in transformers' ViTModel.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "backbone/encoder_block.h"
#include "backbone/encoder_config.h"
#include "json/json_file.h"

namespace itif::backbone::vit {
namespace {

using model::BackboneSpec;
using model::HeadKind;
using model::ImageInput;
using model::Storage;
using model::WeightKind;

constexpr const char* kQkvBias = "qkv_bias";
constexpr std::string_view kPrefix = "vit";

constexpr uint32_t kMaxImageSide = 4096;
constexpr uint32_t kMaxPatch = 256;
constexpr uint32_t kMaxChannels = 16;
constexpr uint32_t kMaxPatches = 65535;  // a batch must hold at least one image

constexpr model::Architecture kArchitectures[] = {
    {.name = "ViTModel"},
    {.name = "ViTForMaskedImageModeling"},
    {.name = "ViTForImageClassification",
     .kind = HeadKind::kClassification,
     .classifier = "classifier",
     .on_pooler = false},
};

BackboneSpec with_image(BackboneSpec spec, const ImageInput& image, bool qkv_bias) {
  spec.image = image;
  spec.max_positions = image.patches() + 1;
  spec.own = {{kQkvBias, uint64_t{qkv_bias}}};
  return spec;
}

Preset preset(std::string_view name, uint32_t layers, uint32_t hidden, uint32_t heads) {
  return {name, with_image({.family = "vit",
                            .layers = layers,
                            .hidden = hidden,
                            .heads = heads,
                            .intermediate = 4 * hidden},
                           {.height = 224, .width = 224, .channels = 3, .patch = 16}, true)};
}

// `image_size`: one number for both sides, or [height, width].
Status parse_image_size(const nlohmann::json& config, const std::string& origin,
                        ImageInput& image) {
  const auto it = config.find("image_size");
  if (it == config.end() || !it->is_array()) {
    ITIF_ASSIGN(image.height,
                json_file::get_uint_or(config, "image_size", 1, kMaxImageSide, 224, origin));
    image.width = image.height;
    return {};
  }
  int64_t sides[2] = {};
  if (it->size() == 2)
    for (size_t i = 0; i < 2; ++i)
      if ((*it)[i].is_number_integer()) sides[i] = (*it)[i].get<int64_t>();
  for (const int64_t side : sides)
    if (side < 1 || side > kMaxImageSide)
      return fail(Code::kInvalidArgument,
                  fmt::format("{}: 'image_size' must be an integer or two, from 1 to {}, found {}",
                              origin, kMaxImageSide, json_file::shown(*it)));
  image.height = static_cast<uint32_t>(sides[0]);
  image.width = static_cast<uint32_t>(sides[1]);
  return {};
}

Result<BackboneSpec> parse(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(BackboneSpec spec, parse_blocks(config, origin, "vit"));
  ImageInput image;
  ITIF_TRY(parse_image_size(config, origin, image));
  ITIF_ASSIGN(image.patch, json_file::get_uint_or(config, "patch_size", 1, kMaxPatch, 16, origin));
  ITIF_ASSIGN(image.channels,
              json_file::get_uint_or(config, "num_channels", 1, kMaxChannels, 3, origin));
  if (image.patch > image.height || image.patch > image.width || image.patches() > kMaxPatches)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: 'patch_size' must cut 'image_size' ({}x{}) into 1 to {} patches, "
                            "found {}",
                            origin, image.height, image.width, kMaxPatches, image.patch));
  ITIF_ASSIGN(const bool qkv_bias, json_file::get_set_bool_or(config, kQkvBias, true, origin));
  return with_image(std::move(spec), image, qkv_bias);
}

nlohmann::ordered_json config(const BackboneSpec& spec) {
  nlohmann::ordered_json config = blocks_config(spec);
  const ImageInput& image = spec.image;
  if (image.height == image.width)
    config["image_size"] = image.height;
  else
    config["image_size"] = {image.height, image.width};
  config["patch_size"] = image.patch;
  config["num_channels"] = image.channels;
  config[kQkvBias] = spec.number(kQkvBias) != 0;
  return config;
}

// Index of each weight kind in weight_kinds().
enum Kind : size_t {
  kProjection,  // weight and bias
  kClassToken = 2,
  kPositions,
  kFinalGamma,
  kFinalBeta,
  kBlocks
};

device::GemmShape projection_shape(const BackboneSpec& spec) {
  return {.n = spec.hidden, .k = spec.image.patch_values()};
}

std::vector<WeightKind> weight_kinds(const BackboneSpec& spec) {
  std::vector<WeightKind> kinds;
  const ImageInput& image = spec.image;
  append_linear(kPrefix, {"embeddings.patch_embeddings.projection"}, "patch embedding",
                projection_shape(spec), kinds);
  kinds[kProjection].source_shape = {spec.hidden, image.channels, image.patch, image.patch};
  kinds.push_back({.name = "class token",
                   .storage = Storage::kVector,
                   .sources = {tensor(kPrefix, "embeddings.cls_token")},
                   .source_shape = {1, 1, spec.hidden}});
  kinds.push_back({.name = "position embeddings",
                   .storage = Storage::kTable,
                   .sources = {tensor(kPrefix, "embeddings.position_embeddings")},
                   .source_shape = {1, spec.max_positions, spec.hidden}});
  append_norm(kPrefix, "layernorm", "final LayerNorm", spec.hidden, kinds);
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    append_block(spec, kPrefix, fmt::format("encoder.layer.{}.", layer),
                 fmt::format("layer {}", layer),
                 {.query = "attention.attention.query",
                  .key = "attention.attention.key",
                  .value = "attention.attention.value",
                  .attention_output = "attention.output.dense",
                  .attention_norm = "layernorm_before",
                  .up = "intermediate.dense",
                  .down = "output.dense",
                  .output_norm = "layernorm_after",
                  .has_qkv_bias = spec.number(kQkvBias) != 0},
                 kinds);
  return kinds;
}

// transformers 5 renamed the modules of a layer, but not the tensors that it saves.
std::string stored_name(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
      {".attention.q_proj.", ".attention.attention.query."},
      {".attention.k_proj.", ".attention.attention.key."},
      {".attention.v_proj.", ".attention.attention.value."},
      {".attention.o_proj.", ".attention.output.dense."},
      {".mlp.fc1.", ".intermediate.dense."},
      {".mlp.fc2.", ".output.dense."}};
  std::string stored = name;
  for (const std::string_view layers : {"layers.", "vit.layers."})
    if (name.starts_with(layers)) stored = "vit.encoder.layer." + name.substr(layers.size());
  for (const auto& [now, then] : kRenamed)
    if (const size_t at = stored.find(now); at != std::string::npos)
      stored.replace(at, now.size(), then);
  return stored;
}

std::vector<GemmUse> gemms(const BackboneSpec& spec) {
  const BlockShapes shapes(spec);
  std::vector<GemmUse> uses = {{projection_shape(spec), 1}};
  for (const device::GemmShape& shape : {shapes.qkv, shapes.out, shapes.up, shapes.down})
    uses.push_back({shape, spec.layers});
  return uses;
}

class VisionTransformer final : public Backbone {
 public:
  static Result<std::unique_ptr<Backbone>> make(device::Device& device, const BackboneSpec& spec,
                                                const MakeOptions& options) {
    std::unique_ptr<VisionTransformer> model(new VisionTransformer(spec, options.fusion_mode));
    ITIF_ASSIGN(model->projection_.handle,
                device.prepare(model->projection_.shape, options.max_rows));
    ITIF_ASSIGN(model->block_, EncoderBlock::make(device, spec, options));
    const size_t rows = static_cast<size_t>(options.max_rows) + device.row_slack();
    const size_t act = rows * dtype_bytes(device.info().compute.activations);
    ITIF_ASSIGN(model->patches_, device.allocate(act * spec.image.patch_values()));
    ITIF_ASSIGN(model->hidden_, device.allocate(act * spec.hidden));
    ITIF_ASSIGN(model->normed_, device.allocate(act * spec.hidden));
    return model;
  }

  Hidden launch(device::Stream& stream, const model::WeightView& weights,
                const Pass& pass) noexcept override {
    launch_embeddings(stream, weights, pass);
    Addend addend;  // not yet added to the hidden states; empty at first
    for (uint32_t layer = 0; layer < spec_.layers; ++layer) {
      const size_t base = kBlocks + layer * kNumBlockKinds;
      launch_norm(stream, weights, pass, base + kAttentionGamma, addend);
      addend = block_->launch_attention(stream, weights, pass, base, normed_->data());
      launch_norm(stream, weights, pass, base + kFfnGamma, addend);
      addend = block_->launch_feed_forward(stream, weights, pass, base, normed_->data());
    }
    launch_norm(stream, weights, pass, kFinalGamma, addend);
    return {.rows = normed_->data()};
  }

  uint64_t workspace_bytes() const override {
    return patches_->bytes() + hidden_->bytes() + normed_->bytes() + block_->workspace_bytes();
  }

 private:
  VisionTransformer(const BackboneSpec& spec, FusionMode fusion_mode) : spec_(spec) {
    projection_.shape = in_fusion_mode(projection_shape(spec), fusion_mode);
  }

  // The GEMM also computes the class tokens' rows, which embed_patches overwrites. They are about
  // one row in 200; skipping them would need other ranges than the batch's.
  void launch_embeddings(device::Stream& stream, const model::WeightView& weights,
                         const Pass& pass) noexcept {
    stream.launch(kernels::GatherPatches{.images = pass.images,
                                         .height = spec_.image.height,
                                         .width = spec_.image.width,
                                         .channels = spec_.image.channels,
                                         .patch = spec_.image.patch,
                                         .out = patches_->data()});
    stream.end_inputs();
    launch_linear(stream, weights, pass, projection_, kProjection, patches_->data(),
                  hidden_->data());
    stream.launch(kernels::EmbedPatches{.x = hidden_->data(),
                                        .segments = pass.segments,
                                        .ranges = pass.ranges,
                                        .class_token = weights[kClassToken],
                                        .position = weights[kPositions],
                                        .hidden = spec_.hidden});
  }

  // hidden += addend, unless it is empty; normed = LayerNorm(hidden).
  void launch_norm(device::Stream& stream, const model::WeightView& weights, const Pass& pass,
                   size_t gamma, const Addend& addend) noexcept {
    stream.launch(kernels::ResidualLayerNorm{.x = addend.rows ? addend.rows : hidden_->data(),
                                             .bias = addend.bias,
                                             .residual = addend.rows ? hidden_->data() : nullptr,
                                             .gamma = weights[gamma],
                                             .beta = weights[gamma + 1],
                                             .epsilon = spec_.layer_norm_eps,
                                             .hidden = spec_.hidden,
                                             .ranges = pass.ranges,
                                             .out = normed_->data(),
                                             .sum = addend.rows ? hidden_->data() : nullptr,
                                             .has_thesis_grid = is_thesis(projection_)});
  }

  const BackboneSpec spec_;
  PreparedShape projection_;
  std::unique_ptr<EncoderBlock> block_;
  std::unique_ptr<device::Buffer> patches_;  // [T, channels · patch²]
  std::unique_ptr<device::Buffer> hidden_;   // [T, hidden]
  std::unique_ptr<device::Buffer> normed_;   // [T, hidden]
};

}  // namespace

const Family& family() {
  static const Family family = {
      .model_type = "vit",
      .heads = {.prefix = kPrefix,
                .pooler = "pooler.dense",
                .pooler_activation = "pooler_act",
                .architectures = kArchitectures},
      .presets = {preset("vit-tiny", 12, 192, 3), preset("vit-small", 12, 384, 6),
                  preset("vit-base", 12, 768, 12), preset("vit-large", 24, 1024, 16)},
      .parse = parse,
      .config = config,
      .weight_kinds = weight_kinds,
      .stored_name = stored_name,
      .gemms = gemms,
      .make = [](device::Device& device, const BackboneSpec& s, const MakeOptions& o) {
        return VisionTransformer::make(device, s, o);
      }};
  return family;
}

}  // namespace itif::backbone::vit
