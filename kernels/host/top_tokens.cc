// Log-softmax over a vocabulary and its best tokens, in two passes over a row. The second mostly
// compares with the worst token that was kept.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "kernels/host/launch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/top_tokens.cc"
#include <hwy/foreach_target.h>

#include "kernels/host/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace itif::kernels::host {
namespace HWY_NAMESPACE {

float Most(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  auto most = hn::Set(d, -std::numeric_limits<float>::infinity());
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) most = hn::Max(most, hn::LoadU(d, x + i));
  float result = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

// Returns Σ exp(x − most). Partial sums are added in f64: beams are compared by the sum of a whole
// vocabulary, for which f32 is not precise enough.
double SumOfExp(const float* x, size_t count, float most) {
  constexpr size_t kPart = 1024;
  const hn::ScalableTag<float> d;
  const auto shift = hn::Set(d, most);
  double sum = 0;
  for (size_t first = 0; first < count; first += kPart) {
    auto part_sum = hn::Zero(d);
    ForLanes(d, std::min(kPart, count - first), [&](auto part, size_t i, size_t n) HWY_ATTR {
      auto e = Exp(d, hn::Sub(part.load(d, x + first + i, n), shift));
      if (n < hn::Lanes(d)) e = hn::IfThenElseZero(hn::FirstN(d, n), e);
      part_sum = hn::Add(part_sum, e);
    });
    sum += hn::GetLane(hn::SumOfLanes(d, part_sum));
  }
  return sum;
}

struct Best {
  float logits[kMaxTopTokens];
  int32_t tokens[kMaxTopTokens];
  uint32_t count = 0, most = 0;
  float least = -std::numeric_limits<float>::infinity();  // the worst that was kept

  // REQUIRES: logit > least; tokens come in ascending order.
  void add(float logit, int32_t token) {
    uint32_t rank = count < most ? count++ : most - 1;
    for (; rank > 0 && logits[rank - 1] < logit; --rank) {
      logits[rank] = logits[rank - 1];
      tokens[rank] = tokens[rank - 1];
    }
    logits[rank] = logit;
    tokens[rank] = token;
    if (count == most) least = logits[most - 1];
  }
};

void FindBest(const float* x, size_t count, Best& best) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto consider = [&](size_t i) {
    if (x[i] > best.least) best.add(x[i], static_cast<int32_t>(i));
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    if (hn::AllFalse(d, hn::Gt(hn::LoadU(d, x + i), hn::Set(d, best.least)))) continue;
    for (size_t lane = 0; lane < lanes; ++lane) consider(i + lane);
  }
  for (; i < count; ++i) consider(i);
}

void TopTokenRows(const TopTokens& args, uint32_t begin, uint32_t end) {
  for (size_t row = begin; row < end; ++row) {
    float* logits = args.logits + (args.chosen.empty() ? row : args.chosen[row]) * args.vocab;
    const BannedTokens row_banned = args.banned_of.empty() ? BannedTokens{} : args.banned_of[row];
    const auto ban = [&] {
      for (const int32_t token : args.banned.subspan(row_banned.first, row_banned.count))
        logits[token] = -std::numeric_limits<float>::infinity();
    };
    if (row_banned.renormalizes) ban();
    const float most = Most(logits, args.vocab);
    const auto log_sum = static_cast<float>(std::log(SumOfExp(logits, args.vocab, most)));
    if (!row_banned.renormalizes) ban();
    Best best;
    best.most = args.count;
    FindBest(logits, args.vocab, best);
    for (uint32_t i = 0; i < args.count; ++i) {
      const bool found = i < best.count;
      args.tokens[row * args.count + i] = found ? best.tokens[i] : -1;
      args.log_probabilities[row * args.count + i] =
          found ? best.logits[i] - most - log_sum : -std::numeric_limits<float>::infinity();
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace itif::kernels::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace itif::kernels::host {

HWY_EXPORT(TopTokenRows);

void run(const TopTokens& args, const HostLaunch& launch) noexcept {
  CHECK(args.count > 0 && args.count <= kMaxTopTokens);
  const auto run = HWY_DYNAMIC_DISPATCH(TopTokenRows);
  // A thread's share of at least some 10 µs is worth waking it.
  constexpr uint32_t kMinLogits = 1u << 15;
  parallel_rows(launch, args.rows, std::max(1u, kMinLogits / std::max(1u, args.vocab)),
                [&](uint32_t begin, uint32_t end) { run(args, begin, end); });
}

}  // namespace itif::kernels::host
#endif  // HWY_ONCE
