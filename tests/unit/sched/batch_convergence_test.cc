// Batches and virtual time from a change of objective or cost to a bound near the best size: slab
// against aimd, with invented costs and those of GSLICE's Table 5.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "sched/batch_control.h"

namespace itif::sched {
namespace {

using CostMs = std::function<double(uint32_t tokens)>;

constexpr double kNear = 0.1;  // of the best size

// The largest batch that keeps the aim: two fifths of the objective.
uint32_t best_tokens(const CostMs& cost, double slo_ms, uint32_t max_tokens) {
  uint32_t tokens = 1;
  while (tokens < max_tokens && cost(tokens + 1) <= 0.4 * slo_ms) ++tokens;
  return tokens;
}

struct Convergence {
  int batches = 0;
  double ms = 0;
};

// Runs full batches until the bound is near the best size.
Convergence converge(BatchControl& control, const CostMs& cost, double slo_ms,
                     uint32_t max_tokens) {
  const auto slo_ns = static_cast<uint64_t>(slo_ms * 1e6);
  const double best = best_tokens(cost, slo_ms, max_tokens);
  Convergence convergence;
  for (; convergence.batches < 10'000; ++convergence.batches) {
    const uint32_t tokens = control.tokens(slo_ns);
    if (std::abs(tokens - best) <= kNear * best) break;
    const double ms = cost(tokens);
    control.ran({.num_tokens = tokens,
                 .execute_ns = static_cast<uint64_t>(ms * 1e6),
                 .slo_ns = slo_ns,
                 .num_requests = tokens});
    convergence.ms += ms;
  }
  return convergence;
}

// From the best size under one cost and objective to that under another.
Convergence after_step(BatchControlKind kind, const CostMs& from, double from_slo_ms,
                       const CostMs& to, double to_slo_ms, uint32_t max_tokens = 4096) {
  const auto control = make_batch_control(kind, max_tokens);
  converge(*control, from, from_slo_ms, max_tokens);
  return converge(*control, to, to_slo_ms, max_tokens);
}

CostMs affine(double fixed_ms, double token_ms) {
  return [=](uint32_t tokens) { return fixed_ms + token_ms * tokens; };
}

// Linear between the points, and past them.
CostMs through(std::vector<std::pair<double, double>> points) {
  return [points](uint32_t tokens) {
    size_t i = 1;
    while (i + 1 < points.size() && tokens > points[i].first) ++i;
    const auto [x0, y0] = points[i - 1];
    const auto [x1, y1] = points[i];
    return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0);
  };
}

struct Step {
  const char* name;
  CostMs from;
  double from_slo_ms;
  CostMs to;
  double to_slo_ms;
};

TEST(BatchConvergence, SlabRisesFasterThanAimd) {
  const Step steps[] = {
      {"the objective rises", affine(2, 0.1), 20, affine(2, 0.1), 200},
      {"batches get faster", affine(6, 0.3), 100, affine(2, 0.1), 100},
      {"mostly fixed cost", affine(20, 0.02), 60, affine(20, 0.02), 100},
  };
  for (const Step& step : steps) {
    const auto slab =
        after_step(BatchControlKind::kSlab, step.from, step.from_slo_ms, step.to, step.to_slo_ms);
    const auto aimd =
        after_step(BatchControlKind::kAimd, step.from, step.from_slo_ms, step.to, step.to_slo_ms);
    EXPECT_LE(slab.batches, 6) << step.name;
    EXPECT_GE(aimd.batches, 4 * slab.batches) << step.name;
    EXPECT_GE(aimd.ms, 3 * slab.ms) << step.name;
  }
}

// Both halve the bound after a batch that is far too long. slab needs at most one batch more,
// because aimd goes a tenth below what fits.
TEST(BatchConvergence, BothFallInAFewBatches) {
  const Step steps[] = {
      {"the objective falls", affine(2, 0.1), 400, affine(2, 0.1), 50},
      {"batches get slower", affine(2, 0.1), 100, affine(6, 0.3), 100},
  };
  for (const Step& step : steps) {
    const auto slab =
        after_step(BatchControlKind::kSlab, step.from, step.from_slo_ms, step.to, step.to_slo_ms);
    const auto aimd =
        after_step(BatchControlKind::kAimd, step.from, step.from_slo_ms, step.to, step.to_slo_ms);
    EXPECT_LE(slab.batches, 4) << step.name;
    EXPECT_LE(slab.batches, aimd.batches + 1) << step.name;
  }
}

// GSLICE, section 4.5, Figures 12c and 14: SLAB takes less than 300 ms at 50 ms and less than
// 500 ms at 100 ms, Clipper 3.5 s and more than 10 s. A token stands for an image here. The paper's
// objective bounds a batch, ours two and a half of them. Both start at one image.
TEST(BatchConvergence, SlabIsAsFastAsInThePaper) {
  const CostMs resnet = through({{8, 9.75}, {16, 14.5}, {32, 25.9}});
  const CostMs vgg = through({{1, 14}, {8, 30.54}, {16, 40.95}, {32, 63.12}});
  constexpr double kTightSloMs = 0.1;
  constexpr uint32_t kMaxImages = 256;
  for (const auto& [name, cost] : {std::pair{"ResNet-50", resnet}, std::pair{"VGG-19", vgg}}) {
    for (const auto& [objective_ms, paper_ms] : {std::pair{50, 300}, std::pair{100, 500}}) {
      const auto measure = [&](BatchControlKind kind) {
        return after_step(kind, cost, kTightSloMs, cost, 2.5 * objective_ms, kMaxImages);
      };
      const Convergence slab = measure(BatchControlKind::kSlab);
      const Convergence aimd = measure(BatchControlKind::kAimd);
      EXPECT_LT(slab.ms, paper_ms) << name;
      EXPECT_GT(aimd.ms, 3 * slab.ms) << name;
      printf("%s, %d ms: slab %d batches, %.0f ms; aimd %d batches, %.0f ms\n", name, objective_ms,
             slab.batches, slab.ms, aimd.batches, aimd.ms);
    }
  }
}

}  // namespace
}  // namespace itif::sched
