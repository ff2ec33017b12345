// The simulated device: its timeline, its memory, its marks, and costs against hand computations.
#include "device/sim/sim_device.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "device/sim/machine_costs.h"
#include "device/sim/row_marks.h"

namespace itif::device {
namespace {

using kernels::RowRange;

SimOptions v100(bool passes_marks = false) {
  SimOptions options = simulated_machine(**find_machine("v100"), "f32").value();
  options.passes_marks = passes_marks;
  return options;
}

// A GEMM of one range, large enough that launch overhead and rounding are small.
struct LargeGemm {
  RowRange range = {0, 8192, 0};
  kernels::GroupedGemm args = {
      .weights = {}, .bias = {}, .n = 4096, .k = 4096, .ranges = {&range, 1}};
  double flops() const { return 2.0 * range.num_rows * args.n * args.k; }
};

TEST(SimDevice, RunsBatchesOneAfterAnotherOnTheVirtualClock) {
  VirtualClock clock(1000);
  SimDevice device(clock, v100());
  const auto one = device.make_stream({}, {}).value(), two = device.make_stream({}, {}).value();
  const LargeGemm gemm;
  one->launch(gemm.args);
  const auto first = one->record();
  two->launch(gemm.args);
  const auto second = two->record();
  EXPECT_EQ(clock.now_ns(), 1000u);
  EXPECT_FALSE(one->is_done(first));
  const uint64_t first_end_ns = device.next_event_ns();
  clock.advance_ns(first_end_ns - 1000);
  EXPECT_TRUE(one->is_done(first));
  EXPECT_FALSE(two->is_done(second)) << "two streams cannot have the device at once";
  const auto done = one->wait(first);
  EXPECT_TRUE(done.status);
  EXPECT_EQ(done.device_ns, first_end_ns - 1000);
  EXPECT_TRUE(two->wait(second).status);  // advances the clock
  EXPECT_EQ(clock.now_ns(), 1000 + 2 * done.device_ns);
  EXPECT_EQ(device.busy_ns(), 2 * done.device_ns);
}

TEST(SimDevice, ReportsInputsReadBeforeTheEnd) {
  VirtualClock clock(0);
  SimDevice device(clock, v100());
  const auto stream = device.make_stream({}, {}).value();
  stream->launch(kernels::GatherIds{});
  stream->end_inputs();
  stream->launch(LargeGemm().args);
  const auto event = stream->record();
  EXPECT_FALSE(stream->inputs_read(event));
  clock.advance_ns(device.next_event_ns());
  EXPECT_TRUE(stream->inputs_read(event));
  EXPECT_FALSE(stream->is_done(event));
  EXPECT_TRUE(stream->wait(event).status);
}

TEST(SimDevice, FailsUntilItIsReset) {
  VirtualClock clock;
  SimDevice device(clock, v100());
  {
    const auto stream = device.make_stream({}, {}).value();
    stream->launch(LargeGemm().args);
    const auto event = stream->record();
    device.break_now();
    EXPECT_TRUE(stream->is_done(event));
    EXPECT_FALSE(stream->wait(event).status);
    EXPECT_FALSE(stream->synchronize());
  }
  ASSERT_TRUE(device.reset());
  EXPECT_TRUE(device.make_stream({}, {}).value()->synchronize());
}

TEST(SimDevice, CountsMemoryAndRefusesMoreThanTheMachineHas) {
  VirtualClock clock;
  SimDevice device(clock, v100());
  const size_t all = device.available_bytes();
  EXPECT_EQ(all, 16'000'000'000u);
  {
    const auto buffer = device.allocate(12'000'000'000).value();
    const auto slab = device.reserve_slab(3'000'000'000, 4).value();
    ASSERT_TRUE(slab->commit(0));
    const Status second = slab->commit(1);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::kResourceExhausted);
    slab->release(0);
    EXPECT_TRUE(slab->commit(1));
  }
  EXPECT_EQ(device.available_bytes(), all);
}

TEST(SimMachines, RefuseTypesThatTheyDoNotComputeWith) {
  const auto bf16 = simulated_machine(**find_machine("v100"), "bf16");
  ASSERT_FALSE(bf16);
  EXPECT_EQ(bf16.error().code, Code::kUnsupported);
  EXPECT_TRUE(simulated_machine(**find_machine("a100"), "bf16"));
  EXPECT_FALSE(find_machine("v101"));
}

// A large GEMM reaches the attained share of the peak, within a wave of tiles.
TEST(MachineCosts, LargeGemmsReachTheAttainedPeak) {
  for (const Machine& machine : machines()) {
    MachineCosts costs(machine, uniform_types(DType::kF16));
    const LargeGemm gemm;
    const kernels::GroupedGemms all = {{&gemm.args, 1}};
    const double peak_ns = gemm.flops() / (machine.f16_flops * machine.attained) * 1e9;
    const double ns = costs.operator_ns(&all, 1);
    EXPECT_GE(ns, peak_ns) << machine.name;
    EXPECT_LE(ns, 1.15 * peak_ns) << machine.name;
  }
}

// One row reads all weights, so it is bound by memory: 4096² · 2 bytes at 900 GB/s.
TEST(MachineCosts, OneRowIsBoundByMemory) {
  MachineCosts costs(**find_machine("v100"), uniform_types(DType::kF16));
  LargeGemm gemm;
  gemm.range.num_rows = 1;
  const kernels::GroupedGemms all = {{&gemm.args, 1}};
  const double read_ns = (4096.0 * 4096 * 2 + 2 * 4096 * 2) / 900e9 * 1e9;
  EXPECT_NEAR(costs.operator_ns(&all, 1), read_ns + 900, 1);
}

// Also in f32, where one wave of the smallest tiles would take five times as long.
TEST(MachineCosts, FewRowsUseAllMultiprocessors) {
  MachineCosts costs(**find_machine("v100"), uniform_types(DType::kF32));
  RowRange range = {0, 1, 0};
  const kernels::GroupedGemm gemm = {
      .weights = {}, .bias = {}, .n = 3072, .k = 3072, .ranges = {&range, 1}};
  const kernels::GroupedGemms all = {{&gemm, 1}};
  EXPECT_NEAR(costs.operator_ns(&all, 1), (3072.0 * 3072 + 2 * 3072) * 4 / 900e9 * 1e9 + 900, 1);
  double last_ns = 0;
  for (range.num_rows = 1; range.num_rows <= 256; ++range.num_rows) {
    const double ns = costs.operator_ns(&all, 1);
    EXPECT_GE(ns, last_ns) << range.num_rows;
    last_ns = ns;
  }
}

// Concat computes the whole matrix of a row's scores, and slots compute less of it.
TEST(MachineCosts, AttentionCostsTheScoresOfItsMatrices) {
  MachineCosts costs(**find_machine("v100"), uniform_types(DType::kF32));
  std::vector<kernels::SegmentRows> segments, slots;
  for (uint32_t row = 0; row < 3200; row += 20) segments.push_back({row, 20});
  for (uint32_t row = 0; row < 3200; row += 100) slots.push_back({row, 100});
  const std::vector<kernels::SegmentRows> rows = {{0, 400},    {400, 400},  {800, 400},
                                                  {1200, 400}, {1600, 400}, {2000, 400},
                                                  {2400, 400}, {2800, 400}};
  kernels::Attention attention{.segments = segments, .num_heads = 12, .head_size = 256};
  const double alone_ns = costs.operator_ns(&attention, 1);
  attention.score_matrices = slots;
  const double slots_ns = costs.operator_ns(&attention, 1);
  attention.score_matrices = rows;
  const double rows_ns = costs.operator_ns(&attention, 1);
  EXPECT_LT(alone_ns, slots_ns);
  EXPECT_LT(2 * slots_ns, rows_ns);
}

// ITIF's point: ranges of few rows do not fill the machine one by one.
TEST(MachineCosts, ConcurrentRangesCostLessThanSequentialOnes) {
  MachineCosts costs(**find_machine("v100"), uniform_types(DType::kF16));
  std::vector<RowRange> ranges;
  for (uint32_t i = 0; i < 16; ++i) ranges.push_back({i * 64, 64, i});
  kernels::GroupedGemm gemm = {.weights = {}, .bias = {}, .n = 768, .k = 768, .ranges = ranges};
  const kernels::GroupedGemms all = {{&gemm, 1}};
  const double sequential = costs.operator_ns(&all, 1);
  gemm.schedule = kernels::GemmMode::kConcurrent;
  EXPECT_LT(costs.operator_ns(&all, 1), sequential / 2);
}

// Half of the multiprocessors take twice as long for large GEMMs, and as long for a launch that
// does not fill them.
TEST(MachineCosts, PartsOfTheMachineComputeInProportion) {
  const Machine& v100 = **find_machine("v100");
  MachineCosts costs(v100, uniform_types(DType::kF16));
  LargeGemm gemm;
  const kernels::GroupedGemms all = {{&gemm.args, 1}};
  const double whole_ns = costs.operator_ns(&all, 1);
  EXPECT_NEAR(costs.operator_ns(&all, 0.5) / whole_ns, 2, 0.15);
  EXPECT_NEAR(costs.operator_ns(&all, 0.25) / whole_ns, 4, 0.3);
  const kernels::Attention nothing{.segments = {}, .num_heads = 12, .head_size = 64};
  EXPECT_EQ(costs.operator_ns(&nothing, 0.1), costs.operator_ns(&nothing, 1));
  double last_ns = INFINITY;
  for (int percent = 1; percent <= 100; ++percent) {
    const double ns = costs.operator_ns(&all, percent / 100.0);
    EXPECT_LE(ns, last_ns * 1.0001) << percent;
    last_ns = ns;
  }
}

// A pass of one layer by hand: embedding, one GEMM, attention, pooling, classifier.
class MarksTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kHidden = 16, kRows = 6;

  // Tensors of one model, of which only the mark matters.
  void load(uint32_t slot, uint64_t mark) {
    std::array<float, kHidden> values{};
    std::memcpy(values.data(), &mark, sizeof(mark));
    const TensorView tensor = {
        reinterpret_cast<const std::byte*>(values.data()), DType::kF32, {kHidden}};
    ASSERT_TRUE(slab_->commit(slot));
    ASSERT_TRUE(device_.upload(tensor, DType::kF32, slab_->slab().at(slot)));
  }
  // The logit of tokens {5, 6, 7} in rows 1 to 3 of the tenant in `slot`. The GEMM reads the
  // weights in gemm_slot. With joins_neighbour attention also reads the next row.
  float logit(uint32_t slot, uint32_t gemm_slot, bool joins_neighbour = false,
              std::vector<kernels::SegmentRows> score_matrices = {}) {
    const auto stream = device_.make_stream({}, {}).value();
    const std::array<uint32_t, 3> ids = {5, 6, 7};
    const kernels::IdPiece piece = {reinterpret_cast<const std::byte*>(ids.data()), 3, 1, 4};
    auto* gathered = reinterpret_cast<int32_t*>(ids_->data());
    stream->launch(kernels::GatherIds{.pieces = {&piece, 1}, .ids = gathered, .vocab_size = 100});
    const std::array<uint32_t, kRows> positions = {0, 0, 1, 2, 0, 0};
    const RowRange range = {0, kRows, slot}, gemm_range = {0, kRows, gemm_slot};
    const kernels::Slab weights = slab_->slab();
    stream->launch(kernels::EmbedLayerNorm{.ids = gathered,
                                           .positions = positions,
                                           .token_types = {},
                                           .ranges = {&range, 1},
                                           .word = weights,
                                           .position = weights,
                                           .token_type = {},
                                           .gamma = weights,
                                           .beta = weights,
                                           .hidden = kHidden,
                                           .out = a_->data()});
    stream->launch(kernels::GroupedGemm{.a = a_->data(),
                                        .weights = weights,
                                        .bias = weights,
                                        .out = b_->data(),
                                        .n = 3 * kHidden,
                                        .k = kHidden,
                                        .ranges = {&gemm_range, 1}});
    const kernels::SegmentRows segment = {1, joins_neighbour ? 4u : 3u};
    stream->launch(kernels::Attention{.qkv = b_->data(),
                                      .out = a_->data(),
                                      .segments = {&segment, 1},
                                      .score_matrices = score_matrices,
                                      .num_heads = 2,
                                      .head_size = kHidden / 2});
    const uint32_t chosen = 0;
    auto* pooled = reinterpret_cast<float*>(b_->data());
    stream->launch(kernels::PoolSegments{.x = a_->data(),
                                         .segments = {&segment, 1},
                                         .chosen = {&chosen, 1},
                                         .hidden = kHidden,
                                         .out = pooled});
    auto* out = reinterpret_cast<float*>(a_->data());
    stream->launch(kernels::SmallLinear{.x = pooled,
                                        .weight = reinterpret_cast<const float*>(weights.at(slot)),
                                        .out = out,
                                        .rows = 1,
                                        .n = 4,
                                        .k = kHidden});
    float result = 0;
    stream->copy_to_host(out, sizeof(result), &result);
    EXPECT_TRUE(stream->synchronize());
    return result;
  }

  VirtualClock clock_;
  SimDevice device_{clock_, v100(true)};
  std::unique_ptr<SlabMemory> slab_ = device_.reserve_slab(kHidden * 4, 4).value();
  std::unique_ptr<Buffer> ids_ = device_.allocate(kRows * 4).value();
  std::unique_ptr<Buffer> a_ = device_.allocate(kRows * kHidden * 4).value();
  std::unique_ptr<Buffer> b_ = device_.allocate(kRows * 3 * kHidden * 4).value();
  const std::vector<int32_t> tokens_ = {5, 6, 7};
  const std::vector<uint32_t> positions_ = {0, 1, 2};
};

TEST_F(MarksTest, TheLogitIsAFunctionOfModelAndTokens) {
  load(0, model_mark(1));
  load(1, model_mark(2));
  EXPECT_EQ(logit(0, 0), expected_logit(model_mark(1), tokens_, positions_, 1));
  EXPECT_EQ(logit(1, 1), expected_logit(model_mark(2), tokens_, positions_, 1));
  EXPECT_NE(logit(0, 0), logit(1, 1));
  EXPECT_NE(logit(0, 0),
            expected_logit(model_mark(1), std::vector<int32_t>{5, 7, 6}, positions_, 1));
}

TEST_F(MarksTest, AnotherTenantsWeightsShow) {
  load(0, model_mark(1));
  load(1, model_mark(2));
  EXPECT_NE(logit(0, 1), expected_logit(model_mark(1), tokens_, positions_, 1));
  EXPECT_NE(logit(0, 1), expected_logit(model_mark(2), tokens_, positions_, 1));
}

TEST_F(MarksTest, AnotherRequestsRowsShow) {
  load(0, model_mark(1));
  EXPECT_NE(logit(0, 0, true), expected_logit(model_mark(1), tokens_, positions_, 1));
}

// Rows 1 to 3 lie in one matrix, or they do not.
TEST_F(MarksTest, RowsOutsideOfEveryScoreMatrixShow) {
  load(0, model_mark(1));
  const float expected = expected_logit(model_mark(1), tokens_, positions_, 1);
  EXPECT_EQ(logit(0, 0, false, {{0, 6}}), expected);
  EXPECT_EQ(logit(0, 0, false, {{0, 1}, {1, 3}, {4, 2}}), expected);
  EXPECT_NE(logit(0, 0, false, {{0, 3}, {3, 3}}), expected);
  EXPECT_NE(logit(0, 0, false, {{2, 4}}), expected);
  EXPECT_NE(logit(0, 0, true, {{0, 6}}), expected);
}

TEST_F(MarksTest, AReleasedSlotHasNoMark) {
  load(0, model_mark(1));
  slab_->release(0);
  EXPECT_NE(logit(0, 0), expected_logit(model_mark(1), tokens_, positions_, 1));
}

// An operator's members say that its rows pass marks on, and which weights they meet.
TEST(RowMarks, ARowByRowOperatorMeetsEachOfItsWeights) {
  constexpr uint32_t kHidden = 8;
  const uint64_t mark = model_mark(1), other = model_mark(2);
  std::array<uint64_t, 2> own = {mark, 0}, wrong = {other, 0};
  const auto slab = [](std::array<uint64_t, 2>& weights) {
    return kernels::Slab{.base = reinterpret_cast<std::byte*>(weights.data()), .stride_bytes = 8};
  };
  std::array<float, 2 *kHidden> x = {}, residual = {}, sum = {}, out = {};
  const auto set = [&](std::array<float, 2 * kHidden>& rows, uint64_t weights) {
    for (uint64_t row = 0; row < 2; ++row) {
      const RowMark row_mark = {.weights = weights, .tokens = 70 + row};
      std::memcpy(rows.data() + row * kHidden, &row_mark, sizeof(row_mark));
    }
  };
  const auto weights_at = [](const std::array<float, 2 * kHidden>& rows, size_t row) {
    RowMark row_mark;
    std::memcpy(static_cast<void*>(&row_mark), rows.data() + row * kHidden, sizeof(row_mark));
    EXPECT_EQ(row_mark.tokens, 70 + row);
    return row_mark.weights;
  };
  const std::array<kernels::RowRange, 1> ranges = {{{.first_row = 0, .num_rows = 2, .slot = 0}}};
  const auto ends_with = [&](auto change) {
    set(x, mark);
    set(residual, mark);
    kernels::ResidualLayerNorm args = {.x = x.data(),
                                       .bias = slab(own),
                                       .residual = residual.data(),
                                       .gamma = slab(own),
                                       .beta = slab(own),
                                       .hidden = kHidden,
                                       .ranges = ranges,
                                       .out = out.data(),
                                       .sum = sum.data()};
    change(args);
    pass_marks(&args, sizeof(float));
    for (size_t row = 0; row < 2; ++row) EXPECT_EQ(weights_at(out, row), weights_at(sum, row));
    EXPECT_EQ(weights_at(out, 0), weights_at(out, 1));
    return weights_at(out, 0);
  };
  using Args = kernels::ResidualLayerNorm;
  EXPECT_EQ(ends_with([](Args&) {}), mark);
  EXPECT_EQ(ends_with([](Args& args) { args.bias = {}, args.residual = nullptr; }), mark);
  EXPECT_EQ(ends_with([&](Args& args) { args.bias = slab(wrong); }), kSpoiled);
  EXPECT_EQ(ends_with([&](Args& args) { args.gamma = slab(wrong); }), kSpoiled);
  EXPECT_EQ(ends_with([&](Args& args) { args.beta = slab(wrong); }), kSpoiled);
  EXPECT_EQ(ends_with([&](Args&) { set(residual, other); }), kSpoiled);
}

TEST(ModelMarks, AreFiniteNumbersOfEveryType) {
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    const uint64_t mark = model_mark(seed);
    ASSERT_NE(mark, 0u);
    ASSERT_NE(mark, kSpoiled);
    for (int i = 0; i < 2; ++i) {
      float f32;
      std::memcpy(&f32, reinterpret_cast<const char*>(&mark) + 4 * i, 4);
      ASSERT_TRUE(std::isfinite(f32));
    }
    for (int i = 0; i < 4; ++i) {
      uint16_t bits;
      std::memcpy(&bits, reinterpret_cast<const char*>(&mark) + 2 * i, 2);
      ASSERT_TRUE(std::isfinite(bf16_to_f32(bits)));
      ASSERT_TRUE(std::isfinite(f16_to_f32(bits)));
    }
  }
}

}  // namespace
}  // namespace itif::device
