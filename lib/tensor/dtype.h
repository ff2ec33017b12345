// Element types of tensors, those that a device computes with, and the conversions between the
// floating-point ones.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace itif {

enum class DType : uint8_t { kF32, kF16, kBF16, kI64, kI32, kU32, kU16, kU8 };

constexpr size_t dtype_bytes(DType type) {
  switch (type) {
    case DType::kI64: return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32: return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kU16: return 2;
    case DType::kU8: return 1;
  }
  return 0;
}

// The name for users and logs: "f32", "bf16", ….
constexpr std::string_view dtype_name(DType type) {
  switch (type) {
    case DType::kF32: return "f32";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kI64: return "i64";
    case DType::kI32: return "i32";
    case DType::kU32: return "u32";
    case DType::kU16: return "u16";
    case DType::kU8: return "u8";
  }
  return "?";
}

// The types that a device computes with; sums are f32. Scales of quantised weights are not here:
// Device::pack() stores them with the weight that they belong to.
struct ComputeTypes {
  DType weights = DType::kF32;      // of GEMMs, as Device::pack() stores them
  DType activations = DType::kF32;  // GEMM inputs and results, embedding tables, keys and values
  bool operator==(const ComputeTypes&) const = default;
};
constexpr ComputeTypes uniform_types(DType type) {
  return {.weights = type, .activations = type};
}

// The compute types that users can ask for, by name. Each device implements some of them.
struct NamedComputeTypes {
  std::string_view name;
  ComputeTypes types;
};
inline constexpr NamedComputeTypes kComputeTypes[] = {
    {"f32", uniform_types(DType::kF32)},
    {"bf16", uniform_types(DType::kBF16)},
    {"f16", uniform_types(DType::kF16)},
};
// The name for users and logs. REQUIRES: types of kComputeTypes.
constexpr std::string_view compute_name(const ComputeTypes& types) {
  for (const NamedComputeTypes& named : kComputeTypes)
    if (named.types == types) return named.name;
  return "?";
}

inline float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float f16_to_f32(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  // Subnormal: magnitude · 2^-24 is exact in f32.
  const float value = static_cast<float>(magnitude) * 0x1.0p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
}

// Rounds to nearest, ties to even; overflow becomes infinity, NaN stays NaN.
inline uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](uint32_t half) { return static_cast<uint16_t>(sign | half); };
  if (magnitude > 0x7f800000u) return with_sign(0x7e00u);
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);  // from 65520 on
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 in f32 rounds to a multiple of 2^-24, ties to even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<uint32_t>(shifted) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return with_sign((rounded - 0x38000000u) >> 13);
}

}  // namespace itif
