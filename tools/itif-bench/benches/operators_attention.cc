// Attention within segments: itif's kernel and, if installed, cuDNN's over the same rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "workload/devices.h"
#include "workload/operator_checks.h"
#include "workload/operator_rows.h"

namespace itif::bench {
namespace {

// Compares two results whose sums have different orders and are rounded.
Status check_alike(const std::string& name, std::span<const float> got,
                   std::span<const float> expected, double tolerance) {
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0f, std::abs(expected[i]))))
      return fail(Code::kInternal, fmt::format("{}: element {} is {}, by our kernel {}", name, i,
                                               got[i], expected[i]));
  return {};
}

Status rows_of(OperatorRows& rows, const std::string& name,
               const std::vector<kernels::SegmentRows>& segments) {
  constexpr uint32_t kHeadSize = kHidden / kHeads;
  const uint32_t tokens = segments.back().first_row + segments.back().num_rows;
  ITIF_ASSIGN(void* const qkv, rows.random_buffer(size_t{tokens} * 3 * kHidden, rows.type()));
  ITIF_ASSIGN(void* const out, rows.random_buffer(size_t{tokens} * kHidden, rows.type()));
  const auto qkv_values =
      read_values(rows.device(), qkv, size_t{tokens} * 3 * kHidden, rows.type());
  const auto results = [&] {
    return read_values(rows.device(), out, size_t{tokens} * kHidden, rows.type());
  };
  double flop = 0;
  for (const auto& segment : segments) flop += 4.0 * segment.num_rows * segment.num_rows * kHidden;
  const auto attend = [&](device::Stream& stream) {
    stream.launch(kernels::Attention{.qkv = qkv,
                                     .out = out,
                                     .segments = segments,
                                     .num_heads = kHeads,
                                     .head_size = kHeadSize,
                                     .scale = 0.125f});
  };
  const auto check = [&](const std::string& title) {
    return check_rows(title, results(), tokens, kHidden, 3 * rows.tolerance(), [&](uint32_t row) {
      const auto segment =
          std::ranges::upper_bound(segments, row, {}, &kernels::SegmentRows::first_row) - 1;
      return plain_attention(qkv_values, row, segment->first_row,
                             segment->first_row + segment->num_rows, kHeads, kHeadSize, 0.125);
    });
  };
  const std::string title = fmt::format("{} {}", name, tokens);
  ITIF_TRY(rows.compute_bound(
      title, flop, [&] { attend(rows.stream()); }, check));
  device::Stream* const cudnn = rows.cudnn_stream();
  if (cudnn == nullptr) return {};
  return rows.compute_bound(
      fmt::format("{}, cuDNN {}", name, tokens), flop, [&] { attend(*cudnn); },
      [&](const std::string& name) -> Status {
        ITIF_TRY(check(name));
        const auto got = results();
        attend(rows.stream());
        ITIF_TRY(run_to_end(rows.stream()));
        return check_alike(name, got, results(), 2 * rows.tolerance());
      },
      cudnn);
}

}  // namespace

Status attention_rows(OperatorRows& rows, uint32_t tokens, uint32_t longest) {
  std::vector<kernels::SegmentRows> segments;
  for (uint32_t first = 0; first < tokens; first += longest)
    segments.push_back({first, std::min(longest, tokens - first)});
  return rows_of(rows, "attention", segments);
}

Status mixed_attention_rows(OperatorRows& rows, uint32_t tokens, uint32_t longest) {
  std::vector<kernels::SegmentRows> segments;
  Random random(5);
  for (uint32_t first = 0; first < tokens; first += segments.back().num_rows)
    segments.push_back(
        {first, std::min(tokens - first, 1 + static_cast<uint32_t>(random.below(longest)))});
  return rows_of(rows, "attention, mixed lengths", segments);
}

}  // namespace itif::bench
