#include "device/host/bf16_products.h"

#include <cmath>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "kernels/host/launch.h"
#include "tensor/dtype.h"

namespace itif::device {
namespace {

using kernels::host::Bf16Products;

// Runs attention of two heads over two segments that do not fill a tile.
std::vector<float> small_attention(Bf16Products products) {
  constexpr uint32_t kHeads = 2, kHeadSize = 48, kHidden = kHeads * kHeadSize;
  constexpr uint32_t kRows = 58;
  constexpr kernels::SegmentRows kSegments[] = {{0, 37}, {37, kRows - 37}};
  Random random(1);
  std::vector<uint16_t> qkv(kRows * 3 * kHidden), out(kRows * kHidden);
  for (uint16_t& v : qkv) v = f32_to_bf16(static_cast<float>(random.normal()));
  const size_t scratch_bytes = kernels::host::attention_scratch_bytes(kRows);
  const std::unique_ptr<std::byte, decltype(&std::free)> scratch(
      static_cast<std::byte*>(std::aligned_alloc(4096, scratch_bytes)), std::free);
  kernels::host::run(kernels::Attention{.qkv = qkv.data(),
                                        .out = out.data(),
                                        .segments = kSegments,
                                        .num_heads = kHeads,
                                        .head_size = kHeadSize,
                                        .scale = 0.144f},
                     {.activation = DType::kBF16,
                      .num_threads = 1,
                      .bf16_products = products,
                      .scratch = {.base = scratch.get(), .bytes_per_thread = scratch_bytes}});
  std::vector<float> values;
  for (const uint16_t v : out) values.push_back(bf16_to_f32(v));
  return values;
}

}  // namespace

Bf16Products choose_bf16_products(const CpuFeatures& cpu) {
  if (!cpu.has_avx512_bf16) return Bf16Products::kWidened;
  if (!cpu.has_amx_bf16) return Bf16Products::kAvx512;
  const std::vector<float> expected = small_attention(Bf16Products::kAvx512);
  const std::vector<float> actual = small_attention(Bf16Products::kAmx);
  for (size_t i = 0; i < expected.size(); ++i) {
    // Sums in another order may differ by one rounding of the result and one of a probability.
    if (std::abs(actual[i] - expected[i]) <= 0.02f * std::max(1.0f, std::abs(expected[i])))
      continue;
    log::warning("attention does not use AMX: {} has it, but its results are wrong", cpu.name);
    return Bf16Products::kAvx512;
  }
  return Bf16Products::kAmx;
}

}  // namespace itif::device
