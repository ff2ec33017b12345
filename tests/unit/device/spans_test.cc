// Spans in the operators' arguments.
#include "kernels/spans.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/decode_args.h"
#include "kernels/thesis_args.h"

namespace itif::kernels {
namespace {

template <class T>
constexpr size_t num_spans() {
  T value{};
  size_t count = 0;
  for_each_span(value, [&](const auto&) { ++count; });
  return count;
}

static_assert(num_spans<uint32_t>() == 0 && num_spans<const void*>() == 0);
static_assert(num_spans<Slab>() == 0 && num_spans<SmallLinear>() == 0);
static_assert(num_spans<GatherIds>() == 1 && num_spans<ImagePixels>() == 1);
static_assert(num_spans<EmbedLayerNorm>() == 3, "13 fields");
static_assert(num_spans<GroupedGemm>() == 3, "ranges, and the schedule's two");
static_assert(num_spans<CachedAttention>() == 2 && num_spans<TopTokens>() == 3);
static_assert(num_spans<SplitHeads>() == 3);

TEST(Spans, AreFoundInStructsWithinStructs) {
  struct Inner {
    uint32_t before = 1;
    std::span<const uint32_t> values;
  };
  struct Outer {
    Inner first;
    float between = 2;
    Inner second;
    std::span<const uint8_t> last;
  };
  const std::array<uint32_t, 2> values = {7, 8};
  const std::array<uint8_t, 3> bytes = {1, 2, 3};
  Outer outer = {{1, values}, 2, {3, values}, bytes};
  size_t num_bytes = 0;
  for_each_span(outer, [&](auto& span) {
    num_bytes += span.size_bytes();
    span = {};
  });
  EXPECT_EQ(num_bytes, 8u + 8u + 3u);
  EXPECT_TRUE(outer.first.values.empty() && outer.second.values.empty() && outer.last.empty());
  EXPECT_EQ(outer.second.before, 3u);
}

TEST(Spans, IncludeTheShapesOfGemmSchedules) {
  const std::array<ShapeMode, 1> shapes = {{{4, 4, GemmMode::kConcurrent}}};
  GroupedGemm args;
  args.schedule = {shapes, GemmMode::kSequential};
  for_each_span(args, [](auto& span) { span = {}; });
  EXPECT_TRUE(args.schedule.shapes().empty());
  EXPECT_EQ(args.schedule.mode_of(4, 4), GemmMode::kSequential);
}

}  // namespace
}  // namespace itif::kernels
