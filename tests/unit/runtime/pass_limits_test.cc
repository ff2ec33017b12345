// How many tenants a pass may have, and how many of their tokens, by backbone and device.
#include "runtime/cost/pass_limits.h"

#include <gtest/gtest.h>

#include "backbone/family.h"

namespace itif::runtime {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

PassLimits limits_of(const char* preset, DType type, size_t cache_bytes, size_t core_cache_bytes,
                     uint32_t num_threads) {
  const backbone::Preset* found = backbone::find_preset(preset).value();
  const backbone::Family* family = backbone::find_family(found->spec.family).value();
  device::DeviceInfo device;
  device.compute = uniform_types(type);
  device.num_threads = num_threads;
  device.cache_bytes = cache_bytes;
  device.core_cache_bytes = core_cache_bytes;
  return pass_limits(device, family->gemms(found->spec));
}
uint32_t pass_tenants(const char* preset, DType type, size_t cache_bytes,
                      uint32_t num_threads = 2) {
  return limits_of(preset, type, cache_bytes, 0, num_threads).max_tenants;
}
uint32_t shared_tokens(const char* preset, DType type, size_t core_cache_bytes,
                       uint32_t num_threads = 2) {
  return limits_of(preset, type, 0, core_cache_bytes, num_threads).max_shared_tokens;
}

// ALBERT-large: 12 · 1024² shared weights, 24 MiB in bf16.
TEST(PassTenants, OneIfTheCacheHoldsOnlyOneTenantsLayers) {
  EXPECT_EQ(pass_tenants("albert-large", DType::kBF16, 32 * kMiB), 1u);
  EXPECT_EQ(pass_tenants("albert-large", DType::kBF16, 24 * kMiB), 1u);
  EXPECT_EQ(pass_tenants("albert-large", DType::kF32, 64 * kMiB), 1u);
}

TEST(PassTenants, AnyNumberIfTheCacheDoesNotHoldOne) {
  EXPECT_EQ(pass_tenants("albert-large", DType::kBF16, 24 * kMiB - 1), 0u);
  EXPECT_EQ(pass_tenants("albert-large", DType::kF32, 32 * kMiB), 0u);
}

// ALBERT-tiny: 12 · 256² shared weights, 1.5 MiB in bf16.
TEST(PassTenants, AsManyAsFillAQuarterOfTheCache) {
  EXPECT_EQ(pass_tenants("albert-tiny", DType::kBF16, 48 * kMiB), 8u);
  EXPECT_EQ(pass_tenants("albert-large", DType::kBF16, 1024 * kMiB), 10u);
}

TEST(PassTenants, AnyNumberWithoutSharedLayersOrOnAGpu) {
  EXPECT_EQ(pass_tenants("bert-tiny", DType::kBF16, 32 * kMiB), 0u);
  EXPECT_EQ(pass_tenants("vit-base", DType::kBF16, 1024 * kMiB), 0u);
  EXPECT_EQ(pass_tenants("albert-large", DType::kBF16, 32 * kMiB, 0), 0u);
  EXPECT_EQ(pass_tenants("albert-large", DType::kBF16, 0), 0u);
}

// BERT-base's widest GEMM reads 768 and writes 3072 values.
TEST(SharedTokens, AsManyAsTheCoresCachesHold) {
  EXPECT_EQ(shared_tokens("bert-base", DType::kBF16, kMiB), 2 * kMiB / (2 * 3840));
  EXPECT_EQ(shared_tokens("bert-base", DType::kF32, kMiB), 2 * kMiB / (4 * 3840));
  EXPECT_EQ(shared_tokens("bert-base", DType::kBF16, kMiB, 16), 16 * kMiB / (2 * 3840));
  EXPECT_EQ(shared_tokens("bert-base", DType::kF32, 1024, 1), 1u);
}

TEST(SharedTokens, AnyNumberIfTheCacheIsUnknownOrOnAGpu) {
  EXPECT_EQ(shared_tokens("bert-base", DType::kBF16, 0), 0u);
  EXPECT_EQ(shared_tokens("bert-base", DType::kBF16, kMiB, 0), 0u);
}

}  // namespace
}  // namespace itif::runtime
