// Operators between hidden states and results: pooling, conversion, the small linear layers.
#include <algorithm>

#include "fixture.h"
#include "reference.h"

namespace itif::kernels {
namespace {

class HeadsTest : public DeviceTest {};
ITIF_DEVICE_SUITE(HeadsTest);

TEST_P(HeadsTest, Pooling) {
  const std::vector<uint32_t> offsets = {0, 1, 4, 24, 25, 90};
  const std::vector<uint32_t> segments = {3, 0, 4, 1};  // a subset, in another order
  for (const uint32_t hidden : {36u, 48u, 384u, 3u}) {
    const auto x = random_activations(offsets.back() * hidden);
    const std::byte* device_x = upload_activations(x);
    for (const auto pooling :
         {kernels::Pooling::kFirst, kernels::Pooling::kMean, kernels::Pooling::kMax,
          kernels::Pooling::kMeanSqrtLength, kernels::Pooling::kLast}) {
      for (const bool normalize : {false, true}) {
        std::byte* out = make_output(segments.size() * hidden, DType::kF32);
        stream_->launch(kernels::PoolSegments{.x = device_x,
                                              .segments = segments_of(offsets),
                                              .chosen = segments,
                                              .pooling = pooling,
                                              .normalize = normalize,
                                              .hidden = hidden,
                                              .out = reinterpret_cast<float*>(out)});
        std::vector<double> expected;
        for (const uint32_t s : segments) {
          const size_t rows = offsets[s + 1] - offsets[s];
          const auto pooled =
              reference::pool(std::span(x).subspan(offsets[s] * hidden, rows * hidden), rows,
                              hidden, pooling, normalize);
          expected.insert(expected.end(), pooled.begin(), pooled.end());
        }
        expect_close(download(out, segments.size() * hidden, DType::kF32), expected, 2e-6,
                     "pooling " + std::to_string(static_cast<int>(pooling)));
      }
    }
  }
}

TEST_P(HeadsTest, NormalisingAZeroVectorGivesZero) {
  const SegmentRows segments[] = {{0, 2}};
  const uint32_t chosen[] = {0};
  std::byte* out = make_output(20, DType::kF32);
  stream_->launch(kernels::PoolSegments{.x = upload_activations(std::vector<float>(40, 0.0f)),
                                        .segments = segments,
                                        .chosen = chosen,
                                        .pooling = kernels::Pooling::kMean,
                                        .normalize = true,
                                        .hidden = 20,
                                        .out = reinterpret_cast<float*>(out)});
  EXPECT_EQ(download(out, 20, DType::kF32), std::vector<float>(20, 0.0f));
}

TEST_P(HeadsTest, ToF32IsExact) {
  for (const size_t count : {0u, 1u, 15u, 16u, 17u, 1023u, 1025u, 40000u}) {
    const auto x = random_activations(count);
    std::byte* out = make_output(count + 1, DType::kF32);
    stream_->launch(kernels::ToF32{
        .x = upload_activations(x), .out = reinterpret_cast<float*>(out), .count = count});
    auto expected = x;
    expected.push_back(12345.0f);  // not written
    EXPECT_EQ(download(out, count + 1, DType::kF32), expected);
  }
}

TEST_P(HeadsTest, SmallLinear) {
  struct Size {
    uint32_t rows, n, k;
  };
  for (const Size size : {Size{1, 2, 36},
                          {3, 9, 768},
                          {5, 768, 768},
                          {1, 1, 1},
                          {2, 7, 33},
                          {4, 131, 20},
                          {9, 5, 132},
                          {17, 6, 35}}) {
    for (const Activation activation : {Activation::kNone, Activation::kTanh, Activation::kGelu,
                                        Activation::kGeluTanh, Activation::kRelu}) {
      for (const bool has_bias : {true, false}) {
        const auto x = random_values(size.rows * size.k);
        const auto weight = random_values(size.n * size.k, 1.0 / std::sqrt(size.k));
        const auto bias = random_values(has_bias ? size.n : 0);
        std::byte* out = make_output(size.rows * size.n, DType::kF32);
        stream_->launch(kernels::SmallLinear{
            .x = reinterpret_cast<const float*>(upload(x, DType::kF32)),
            .weight = reinterpret_cast<const float*>(upload(weight, DType::kF32)),
            .bias = has_bias ? reinterpret_cast<const float*>(upload(bias, DType::kF32)) : nullptr,
            .out = reinterpret_cast<float*>(out),
            .rows = size.rows,
            .n = size.n,
            .k = size.k,
            .activation = activation});
        expect_close(download(out, size.rows * size.n, DType::kF32),
                     reference::linear(x, weight, bias, size.rows, size.n, size.k, activation),
                     5e-6, "activation " + std::to_string(static_cast<int>(activation)));
      }
    }
  }
}

// Bit-identical results keep a tenant's answers from revealing how many others share the batch.
TEST_P(HeadsTest, SmallLinearRowIsIndependentOfOtherRows) {
  constexpr uint32_t kRows = 19, kN = 5;
  for (const uint32_t k : {768u, 33u}) {
    const auto x = random_values(kRows * k);
    const auto weight = random_values(kN * k);
    const auto* device_x = reinterpret_cast<const float*>(upload(x, DType::kF32));
    const auto* device_weight = reinterpret_cast<const float*>(upload(weight, DType::kF32));
    const auto compute = [&](uint32_t first, uint32_t rows) {
      std::byte* out = make_output(rows * kN, DType::kF32);
      stream_->launch(kernels::SmallLinear{.x = device_x + first * k,
                                           .weight = device_weight,
                                           .out = reinterpret_cast<float*>(out),
                                           .rows = rows,
                                           .n = kN,
                                           .k = k});
      return download(out, rows * kN, DType::kF32);
    };
    const auto all = compute(0, kRows);
    for (const uint32_t first : {0u, 7u, 18u}) {
      const auto begin = all.begin() + first * kN;
      EXPECT_EQ(compute(first, 1), std::vector(begin, begin + kN)) << "k " << k << " row " << first;
    }
  }
}

// More rows than a grid has blocks along y.
TEST_P(HeadsTest, SmallLinearOfManyRows) {
  constexpr uint32_t kRows = 65537;
  const auto x = random_values(kRows);
  const float weight = 3;
  std::byte* out = make_output(kRows, DType::kF32);
  stream_->launch(kernels::SmallLinear{
      .x = reinterpret_cast<const float*>(upload(x, DType::kF32)),
      .weight = reinterpret_cast<const float*>(upload({&weight, 1}, DType::kF32)),
      .out = reinterpret_cast<float*>(out),
      .rows = kRows,
      .n = 1,
      .k = 1});
  std::vector<float> expected;
  for (const float value : x) expected.push_back(3 * value);
  EXPECT_EQ(download(out, kRows, DType::kF32), expected);
}

// Checks the whole range of inputs, tails included, through a 1 × 1 layer.
TEST_P(HeadsTest, ActivationsAreAccurateEverywhere) {
  std::vector<float> x;
  for (int i = -12000; i <= 12000; ++i) x.push_back(static_cast<float>(i) / 1000.0f);
  for (const float extreme : {-1e30f, -100.0f, -1e-20f, 0.0f, 1e-20f, 100.0f, 1e30f})
    x.push_back(extreme);
  const auto count = static_cast<uint32_t>(x.size());
  const float one = 1.0f;
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kTanh,
                                      Activation::kRelu, Activation::kSilu}) {
    std::byte* out = make_output(count, DType::kF32);
    stream_->launch(
        kernels::SmallLinear{.x = reinterpret_cast<const float*>(upload({&one, 1}, DType::kF32)),
                             .weight = reinterpret_cast<const float*>(upload(x, DType::kF32)),
                             .bias = nullptr,
                             .out = reinterpret_cast<float*>(out),
                             .rows = 1,
                             .n = count,
                             .k = 1,
                             .activation = activation});
    std::vector<double> expected;
    for (const float v : x) expected.push_back(reference::activate(activation, v));
    expect_close(download(out, count, DType::kF32), expected, 1e-6,
                 "activation " + std::to_string(static_cast<int>(activation)));
  }
}

}  // namespace
}  // namespace itif::kernels
