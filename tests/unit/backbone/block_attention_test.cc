// A family chooses its blocks' attention, which may have weights and scratch memory of its own.
#include "backbone/block_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backbone/text_encoder.h"
#include "support/plain_device.h"

namespace itif::backbone {
namespace {

using model::BackboneSpec;
using model::Storage;
using model::WeightKind;

constexpr uint32_t kRows = 3;
constexpr uint32_t kScratchWidth = 100;  // more than 3 · hidden and than `intermediate`

BackboneSpec small_spec() {
  return {.family = "bert",
          .layers = 2,
          .hidden = 4,
          .heads = 2,
          .intermediate = 8,
          .vocab = 5,
          .max_positions = 8,
          .type_vocab = 2};
}

// Its context is a vector that each block has as a weight.
class ConstantAttention final : public BlockAttention {
 public:
  static Result<std::unique_ptr<BlockAttention>> make(device::Device& device,
                                                      const BackboneSpec& spec,
                                                      const MakeOptions& options) {
    if (options.fusion_mode == FusionMode::kThesis)
      return fail(Code::kUnsupported, "constant attention has no thesis mode");
    auto attention = std::make_unique<ConstantAttention>();
    ITIF_ASSIGN(attention->memory_, device.allocate(64));
    attention->hidden_ = spec.hidden;
    return attention;
  }
  static std::vector<WeightKind> kinds(const BackboneSpec& spec, std::string_view prefix,
                                       const std::string& base, const std::string& title) {
    return {{.name = title + " constant",
             .storage = Storage::kVector,
             .sources = {tensor(prefix, base + "attention.constant")},
             .source_shape = {spec.hidden}}};
  }

  void launch(device::Stream&, const model::WeightView& weights, const Pass& pass, size_t base,
              const AttentionRows& rows) noexcept override {
    const auto* constant = reinterpret_cast<const float*>(weights[base + kNumBlockKinds].at(0));
    auto* scratch = static_cast<float*>(rows.scratch);
    std::fill_n(scratch, size_t{pass.num_rows} * kScratchWidth, 7.0f);
    for (uint32_t row = 0; row < pass.num_rows; ++row)
      std::copy_n(constant, hidden_, static_cast<float*>(rows.context) + size_t{row} * hidden_);
  }
  uint32_t scratch_width() const override { return kScratchWidth; }
  uint64_t workspace_bytes() const override { return memory_->bytes(); }

 private:
  std::unique_ptr<device::Buffer> memory_;
  uint32_t hidden_ = 0;
};

TextEncoderLayout layout_of(const BackboneSpec& spec, const AttentionFactory& attention) {
  TextEncoderLayout layout = plain_layout(spec, "bert", "layer.",
                                          {.query = "q",
                                           .key = "k",
                                           .value = "v",
                                           .attention_output = "out",
                                           .attention_norm = "norm",
                                           .up = "up",
                                           .down = "down",
                                           .output_norm = "output_norm"});
  layout.attention = attention;
  return layout;
}

constexpr AttentionFactory kConstant = {.make = ConstantAttention::make,
                                        .kinds = ConstantAttention::kinds};

TEST(BlockAttention, ItsWeightsFollowThoseOfItsBlock) {
  const BackboneSpec spec = small_spec();
  const auto kinds = text_encoder_kinds(spec, layout_of(spec, kConstant));
  const auto plain = text_encoder_kinds(spec, layout_of(spec, {}));
  ASSERT_EQ(kinds.size(), plain.size() + spec.layers);
  const size_t blocks = plain.size() - spec.layers * kNumBlockKinds;
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    const WeightKind& own = kinds[blocks + layer * (kNumBlockKinds + 1) + kNumBlockKinds];
    EXPECT_EQ(own.name, "layer " + std::to_string(layer) + " constant");
    EXPECT_EQ(own.sources[0].names.back(),
              "bert.layer." + std::to_string(layer) + ".attention.constant");
  }
}

std::vector<float> normalized(std::vector<float> row) {
  const auto size = static_cast<float>(row.size());
  float mean = 0, variance = 0;
  for (const float value : row) mean += value / size;
  for (const float value : row) variance += (value - mean) * (value - mean) / size;
  for (float& value : row) value = (value - mean) / std::sqrt(variance + 1e-12f);
  return row;
}

// Weights are 0, except that the output projection of attention is the identity.
TEST(BlockAttention, TheBlockProjectsItsContextAndKeepsTheRest) {
  const BackboneSpec spec = small_spec();
  const TextEncoderLayout layout = layout_of(spec, kConstant);
  testing::PlainDevice device;
  auto store = model::WeightStore::create(device, text_encoder_kinds(spec, layout), 1).value();
  ASSERT_EQ(store->acquire().value(), 0u);
  for (size_t i = 0; i < store->kinds().size(); ++i) {
    const WeightKind& kind = store->kinds()[i];
    auto* values = reinterpret_cast<float*>(store->slab(i).at(0));
    std::fill_n(values, kind.source_shape.elements() * kind.sources.size(),
                kind.init == model::Init::kOne ? 1.0f : 0.0f);
    if (kind.name.ends_with(" out weight"))
      for (uint32_t j = 0; j < spec.hidden; ++j) values[j * spec.hidden + j] = 1.0f;
    if (kind.name == "layer 0 constant") values[1] = 1.0f;
    if (kind.name == "layer 1 constant") values[3] = 10.0f;
  }
  const auto encoder = make_text_encoder(device, spec, layout, {.max_rows = kRows}).value();
  const auto stream = device.make_stream().value();
  const std::array<uint16_t, kRows> ids = {1, 2, 3};
  const std::array<uint32_t, kRows> positions = {0, 1, 2};
  const kernels::IdPiece piece{.data = reinterpret_cast<const std::byte*>(ids.data()),
                               .num_ids = kRows};
  const kernels::SegmentRows segment{.first_row = 0, .num_rows = kRows};
  const kernels::RowRange range{.first_row = 0, .num_rows = kRows, .slot = 0};
  const Hidden hidden = encoder->launch(*stream, store->view(),
                                        {.num_rows = kRows,
                                         .pieces = {&piece, 1},
                                         .positions = positions,
                                         .token_types = {},
                                         .segments = {&segment, 1},
                                         .ranges = {&range, 1}});
  ASSERT_TRUE(stream->synchronize());
  // The embeddings are 0, and each half block ends with a LayerNorm.
  const std::vector<float> first = normalized(normalized({0, 1, 0, 0}));
  const std::vector<float> expected =
      normalized(normalized({first[0], first[1], first[2], first[3] + 10}));
  const auto* values = static_cast<const float*>(hidden.rows);
  for (size_t i = 0; i < kRows * expected.size(); ++i)
    EXPECT_NEAR(values[i], expected[i % expected.size()], 1e-5) << i;
}

TEST(BlockAttention, ItsMemoryAndItsScratchAreCounted) {
  const BackboneSpec spec = small_spec();
  testing::PlainDevice device;
  const MakeOptions options{.max_rows = kRows};
  const auto plain = EncoderBlock::make(device, spec, options).value();
  const auto own = EncoderBlock::make(device, spec, options, kConstant).value();
  const uint64_t rows = kRows + device.row_slack();
  const uint64_t more = rows * (kScratchWidth - 3 * spec.hidden) * sizeof(float) + 64;
  EXPECT_EQ(own->workspace_bytes(), plain->workspace_bytes() + more);
}

TEST(BlockAttention, MayRefuseAFusionMode) {
  testing::PlainDevice device;
  const auto block = EncoderBlock::make(
      device, small_spec(), {.max_rows = kRows, .fusion_mode = FusionMode::kThesis}, kConstant);
  ASSERT_FALSE(block);
  EXPECT_EQ(block.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace itif::backbone
