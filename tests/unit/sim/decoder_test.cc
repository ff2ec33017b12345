// A decoder on the simulated device, step by step: what a step costs, when a text ends, and that
// tokens show whose weights and whose K/V memory they came from.
#include "backbone/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/sim/machine_costs.h"
#include "device/sim/next_tokens.h"
#include "device/sim/row_marks.h"
#include "device/sim/sim_device.h"
#include "sim/model_choice.h"

namespace itif::sim {
namespace {

using backbone::Decoder;

constexpr uint32_t kHidden = 16, kVocab = 64, kMaxRows = 64;

// Arithmetic costs nothing, a launch 1 us, and a byte 1 ns.
constexpr device::Machine kSlowMemory = {.name = "slow memory",
                                         .description = "slow memory",
                                         .f32_flops = 1e30,
                                         .f16_flops = 1e30,
                                         .bf16_flops = 1e30,
                                         .bytes_per_s = 1e9,
                                         .host_bytes_per_s = 1e9,
                                         .launch_ns = 1000,
                                         .memory_bytes = 1u << 30,
                                         .multiprocessors = 1};

class DecoderTest : public ::testing::Test {
 protected:
  explicit DecoderTest(bool passes_marks = true) : device_(clock_, options(passes_marks)) {
    decoder_ = backbone::find_family("marian")
                   .value()
                   ->make_decoder(device_, spec_,
                                  {.max_rows = kMaxRows,
                                   .max_beams = 4,
                                   .max_step_rows = 4,
                                   .max_cache_bytes = 1u << 20})
                   .value();
    slab_ = device_.reserve_slab(64, 2).value();
    for (uint32_t slot = 0; slot < 2; ++slot) load(slot, mark_of_slot(slot));
    const size_t kinds = backbone::find_family("marian").value()->weight_kinds(spec_).size();
    weights_.assign(kinds, slab_->slab());
    stream_ = device_.make_stream({}, {}).value();
  }
  static device::SimOptions options(bool passes_marks) {
    device::SimOptions options;
    options.info.compute = uniform_types(DType::kF32);
    options.info.memory_bytes = kSlowMemory.memory_bytes;
    options.costs = std::make_unique<device::MachineCosts>(kSlowMemory, uniform_types(DType::kF32));
    options.passes_marks = passes_marks;
    return options;
  }
  static uint64_t mark_of_slot(uint32_t slot) { return device::model_mark(slot + 1); }
  void load(uint32_t slot, uint64_t mark) {
    std::array<float, 4> values{};
    std::memcpy(values.data(), &mark, sizeof(mark));
    ASSERT_TRUE(slab_->commit(slot));
    ASSERT_TRUE(
        device_.upload({reinterpret_cast<const std::byte*>(values.data()), DType::kF32, Shape{4}},
                       DType::kF32, slab_->slab().at(slot)));
  }

  // Encodes a source of at most one block in the rows of a tenant, into a block of the cache.
  void encode(uint32_t slot, const std::vector<uint32_t>& source, uint32_t block) {
    const auto rows = static_cast<uint32_t>(source.size());
    const kernels::IdPiece piece = {reinterpret_cast<const std::byte*>(source.data()), rows, 0, 4};
    const kernels::SegmentRows segment = {0, rows};
    const kernels::RowRange range = {0, rows, slot};
    std::vector<uint32_t> positions, kv_rows;
    for (uint32_t i = 0; i < rows; ++i) {
      positions.push_back(i);
      kv_rows.push_back(block * Decoder::kBlockTokens + i);
    }
    decoder_->launch_encode(*stream_, {weights_},
                            {.num_rows = rows,
                             .pieces = {&piece, 1},
                             .positions = positions,
                             .token_types = {},
                             .segments = {&segment, 1},
                             .ranges = {&range, 1}},
                            kv_rows);
  }
  // One step of one beam. Its own tokens are in history_block, its source's in source_block.
  int32_t step(uint32_t slot, int32_t token, uint32_t position, uint32_t history_block,
               uint32_t source_block, uint32_t source_tokens) {
    const uint32_t kv_row = history_block * Decoder::kBlockTokens + position;
    const std::array<uint32_t, 2> blocks = {history_block, source_block};
    const kernels::KvTable history = {0, position + 1}, memory = {1, source_tokens};
    const kernels::RowRange range = {0, 1, slot};
    const backbone::StepResult result = decoder_->launch_step(*stream_, {weights_},
                                                              {.tokens = {&token, 1},
                                                               .positions = {&position, 1},
                                                               .kv_rows = {&kv_row, 1},
                                                               .history = {&history, 1},
                                                               .memory = {&memory, 1},
                                                               .blocks = blocks,
                                                               .max_blocks = 2,
                                                               .ranges = {&range, 1},
                                                               .banned_of = {},
                                                               .banned = {},
                                                               .num_candidates = 1});
    int32_t found = -1;
    std::memcpy(&found, result.tokens, sizeof(found));
    return found;
  }
  std::vector<int32_t> generate(uint32_t slot, const std::vector<uint32_t>& source) {
    encode(slot, source, 1);
    std::vector<int32_t> tokens = {kStart};
    while (tokens.back() != device::kEndToken && tokens.size() < Decoder::kBlockTokens)
      tokens.push_back(step(slot, tokens.back(), static_cast<uint32_t>(tokens.size()) - 1, 0, 1,
                            static_cast<uint32_t>(source.size())));
    tokens.erase(tokens.begin());
    return tokens;
  }
  std::vector<int32_t> expected(uint64_t mark, const std::vector<uint32_t>& source) const {
    return device::expected_tokens(
        mark, std::vector<int32_t>(source.begin(), source.end()),
        {.encoder_layers = 1, .layers = 1, .vocab = kVocab, .start = kStart, .end = 0});
  }

  static constexpr int32_t kStart = kVocab - 1;
  const model::BackboneSpec spec_ = spec_of({.preset = "marian-tiny",
                                             .layers = 1,
                                             .hidden = kHidden,
                                             .heads = 2,
                                             .max_positions = 32,
                                             .decoder_layers = 1,
                                             .vocab = kVocab})
                                        .value();
  VirtualClock clock_;
  device::SimDevice device_;
  std::unique_ptr<device::SlabMemory> slab_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<kernels::Slab> weights_;
  std::unique_ptr<device::Stream> stream_;
};

// By hand. Bytes in f32, with hidden size h and vocabulary v:
//   embedding                               3 h
//   Q, K and V of one row                   3 h h + 4 h
//   both outputs, and the cross query       3 (h h + 2 h)
//   feed-forward network                    8 h h + 10 h
//   K and V, read and written               4 h
//   attention over t and s tokens           (2 t + 2 + 2 s + 2) h
//   three LayerNorms of a sum               9 h
//   logits                                  v h + v + h
//   the best token                          2 v
// 16 launches; the token's 4 bytes come from the host.
TEST_F(DecoderTest, AStepCostsItsLaunchesAndItsBytes) {
  const uint32_t t = 3, s = 5, h = kHidden, v = kVocab;
  encode(0, std::vector<uint32_t>(s, 9), 1);
  ASSERT_TRUE(stream_->wait(stream_->record()).status);
  step(0, 7, t - 1, 0, 1, s);
  const uint64_t ns = stream_->wait(stream_->record()).device_ns;
  const uint32_t values = 3 * h + 3 * h * h + 4 * h + 3 * (h * h + 2 * h) + 8 * h * h + 10 * h +
                          4 * h + (2 * t + 2 + 2 * s + 2) * h + 9 * h + v * h + v + h + 2 * v;
  EXPECT_EQ(ns, 16 * 1000 + 4 * values + 4);
}

TEST_F(DecoderTest, ATextEndsAfterAsManyTokensAsItsSourceNames) {
  for (const uint32_t planned : {1u, 2u, 7u}) {
    const std::vector<int32_t> tokens = generate(0, {planned, 40, 41});
    ASSERT_EQ(tokens.size(), planned);
    EXPECT_EQ(std::ranges::count(tokens, device::kEndToken), 1);
  }
}

TEST_F(DecoderTest, TokensAreAFunctionOfModelAndSource) {
  const std::vector<uint32_t> source = {8, 40, 41};
  EXPECT_EQ(generate(0, source), expected(mark_of_slot(0), source));
  EXPECT_EQ(generate(1, source), expected(mark_of_slot(1), source));
  EXPECT_NE(generate(0, source), generate(1, source));
  EXPECT_NE(generate(0, source), generate(0, {8, 41, 40}));
}

// Every kind of weights that the model has.
TEST_F(DecoderTest, AnotherTenantsWeightsShow) {
  const std::vector<uint32_t> source = {8, 40, 41};
  const std::vector<int32_t> own = expected(mark_of_slot(0), source);
  const kernels::Slab slab = slab_->slab();
  for (size_t kind = 0; kind < weights_.size(); ++kind) {
    weights_[kind].base = slab.base + slab.stride_bytes;  // slot 0 has the weights of slot 1
    EXPECT_NE(generate(0, source), own) << "kind " << kind;
    weights_[kind] = slab;
  }
  EXPECT_EQ(generate(0, source), own);
}

TEST_F(DecoderTest, AnotherSequencesMemoryShows) {
  encode(0, {8, 40, 41}, 1);
  encode(0, {8, 50, 51}, 2);
  const int32_t own = step(0, kStart, 0, 0, 1, 3);
  EXPECT_EQ(own, expected(mark_of_slot(0), {8, 40, 41}).front());
  EXPECT_NE(step(0, kStart, 0, 0, 2, 3), own) << "another request's source";
  EXPECT_NE(step(0, kStart, 0, 0, 1, 2), own) << "a part of the source";
  encode(1, {8, 40, 41}, 1);
  EXPECT_NE(step(0, kStart, 0, 0, 1, 3), own) << "the same source of another tenant";
}

// A beam that shares a block copies it before it writes.
TEST_F(DecoderTest, CopiedBlocksKeepTheirMarks) {
  encode(0, {8, 40, 41}, 1);
  const int32_t first = step(0, kStart, 0, 0, 1, 3);
  const kernels::KvCopy copy = {.from = 0, .to = 3, .num_tokens = 1};
  const int32_t second = step(0, first, 1, 0, 1, 3);
  EXPECT_NE(step(0, first, 1, 2, 1, 3), second) << "an empty history";
  decoder_->launch_copies(*stream_, {&copy, 1});
  EXPECT_EQ(step(0, first, 1, 3, 1, 3), second);
}

class UnmarkedDecoderTest : public DecoderTest {
 protected:
  UnmarkedDecoderTest() : DecoderTest(false) {}
};

TEST_F(UnmarkedDecoderTest, TextsEndWithoutMarks) {
  EXPECT_EQ(generate(0, {4, 40, 41}), (std::vector<int32_t>{1, 1, 1, 0}));
}

}  // namespace
}  // namespace itif::sim
