// The layout of packed weights, and the element types that the CUDA device multiplies.
#include "device/cuda/gemm/packed_weights.h"

#include <gtest/gtest.h>

#include "device/cuda/gemm/gemm.h"

namespace itif::device::cuda {
namespace {

constexpr GemmShape kShape = {.n = 3, .k = 5};

TEST(CudaPackedWeights, ABiasOf16BitsFollows) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    ASSERT_TRUE(has_packed_bias(uniform_types(type), kShape));
    EXPECT_EQ(packed_bias_offset(uniform_types(type), kShape), 256u);
    EXPECT_EQ(packed_bytes(uniform_types(type), kShape), 256u + 3 * 2);
  }
}

TEST(CudaPackedWeights, AreBareIfNoEpilogueNeedsTheBias) {
  EXPECT_EQ(packed_bytes(uniform_types(DType::kF32), kShape), 60u);
  EXPECT_EQ(packed_bytes(uniform_types(DType::kBF16), {.n = 3, .k = 5, .has_bias = false}), 30u);
  EXPECT_EQ(packed_bytes(uniform_types(DType::kBF16), {.n = 3, .k = 5, .f32_out = true}), 30u);
}

TEST(CudaPackedWeights, HaveTheWeightsTypeAndTheirBiasTheActivations) {
  const ComputeTypes types = {.weights = DType::kU8, .activations = DType::kBF16};
  const GemmShape shape = {.n = 3, .k = 100};
  EXPECT_EQ(packed_bias_offset(types, shape), 512u);
  EXPECT_EQ(packed_bytes(types, shape), 512u + 3 * 2);
  EXPECT_EQ(packed_bytes(types, {.n = 3, .k = 100, .has_bias = false}), 300u);
}

TEST(CudaTypes, AreRefusedByName) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    EXPECT_TRUE(Gemms::check_types(uniform_types(type)));
  const Status refused = Gemms::check_types({.weights = DType::kU8, .activations = DType::kBF16});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().message, "cuBLAS has no GEMM of u8 weights and bf16 activations");
  EXPECT_FALSE(Gemms::check_types({.weights = DType::kF32, .activations = DType::kF16}));
}

}  // namespace
}  // namespace itif::device::cuda
