// Conversions between floating types, compared with the compiler's (f16) and with the definition
// (bf16).
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace itif {
namespace {

uint16_t by_compiler(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}
void expect_same(float value) {
  const uint16_t got = f32_to_f16(value), expected = by_compiler(value);
  if (std::isnan(value))
    EXPECT_TRUE(std::isnan(f16_to_f32(got)));
  else
    EXPECT_EQ(got, expected) << value;
}

TEST(DType, EveryF16RoundTripsThroughF32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(half));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << bits;
    EXPECT_EQ(f32_to_f16(value), half) << bits;
  }
}

// Values halfway between two neighbours and slightly to either side, where rounding decides.
TEST(DType, F32RoundsToTheNearestF16) {
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const float low = f16_to_f32(static_cast<uint16_t>(bits));
    const float high = bits + 1 == 0x7C00 ? 65536.0f : f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    for (const float value : {middle, std::nextafter(middle, low), std::nextafter(middle, high),
                              std::nextafter(low, high), std::nextafter(high, low)}) {
      expect_same(value);
      expect_same(-value);
    }
  }
  for (const float value : {0.0f, -0.0f, 65519.996f, 65520.0f, 1e30f, -1e30f, INFINITY, -INFINITY,
                            NAN, 1e-30f, 0x1p-25f, 0x1.000002p-25f})
    expect_same(value);
}

TEST(DType, F32RoundsToTheNearestBf16) {
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<uint32_t>(random.below(0x7F800000));
    const float value = std::bit_cast<float>(bits);
    const uint16_t got = f32_to_bf16(value);
    const auto low = static_cast<uint16_t>(bits >> 16);
    const uint32_t rest = bits & 0xFFFF;
    const bool up = rest > 0x8000 || (rest == 0x8000 && (low & 1));
    EXPECT_EQ(got, low + up) << value;
    EXPECT_EQ(f32_to_bf16(-value), got | 0x8000) << value;
  }
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(NAN))));
  EXPECT_EQ(bf16_to_f32(f32_to_bf16(INFINITY)), INFINITY);
}

}  // namespace
}  // namespace itif
