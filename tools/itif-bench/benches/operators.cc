// itif-bench operators: the operators of a forward pass other than GEMMs, at BERT-base's sizes. The
// limit of a memory-bound operator is a copy of the same size; the limit of attention is the
// machine's GEMM rate. Then the thesis's Tables 5.3 and 5.4 and Figure 5.5 (operators_thesis.cc,
// operators_qkv.cc).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "benches.h"
#include "workload/devices.h"
#include "workload/operator_checks.h"
#include "workload/operator_rows.h"

namespace itif::bench {
namespace {

constexpr uint32_t kTokens[] = {32, 128, 512};
constexpr uint32_t kTokensOnGpu = 8192;  // keeps a GPU busy and exceeds its caches
constexpr uint32_t kSegment = 128;     // longest segment

Status block_rows(OperatorRows& rows, uint32_t tokens) {
  device::Device& device = rows.device();
  const DType type = rows.type();
  const auto title_of = [&](const char* name) { return fmt::format("{} {}", name, tokens); };
  const size_t element = dtype_bytes(type), row = size_t{tokens} * kHidden * element;
  device::Stream& stream = rows.stream();
  ITIF_ASSIGN(void* const x, rows.random_buffer(tokens * kHidden, type));
  ITIF_ASSIGN(void* const residual, rows.random_buffer(tokens * kHidden, type));
  ITIF_ASSIGN(void* const out, rows.random_buffer(tokens * kHidden, type));
  ITIF_ASSIGN(void* const wide, rows.random_buffer(tokens * kIntermediate, type));
  ITIF_ASSIGN(void* const wide_copy, rows.random_buffer(tokens * kIntermediate, type));
  ITIF_ASSIGN(void* const wide_bias, rows.random_buffer(kIntermediate, DType::kF32));
  ITIF_ASSIGN(void* const words, rows.random_buffer(kVocab * kHidden, type));
  ITIF_ASSIGN(void* const vectors, rows.random_buffer(2 * kHidden, DType::kF32));
  ITIF_ASSIGN(void* const f32_out, rows.random_buffer(tokens * kHidden, DType::kF32));
  const kernels::Slab gamma = shared_slab(vectors),
                      beta = shared_slab(static_cast<float*>(vectors) + kHidden);
  const std::vector<kernels::RowRange> ranges = {{.first_row = 0, .num_rows = tokens, .slot = 0}};
  std::vector<uint32_t> positions, chosen;
  std::vector<kernels::SegmentRows> segments;
  std::vector<uint32_t> ids;
  Random random(3);
  for (uint32_t i = 0; i < tokens; ++i) {
    positions.push_back(i % kSegment);
    ids.push_back(static_cast<uint32_t>(random.below(kVocab)));
  }
  for (uint32_t first = 0; first < tokens; first += kSegment) {
    chosen.push_back(static_cast<uint32_t>(segments.size()));
    segments.push_back({first, std::min(kSegment, tokens - first)});
  }

  ITIF_ASSIGN(const int32_t* const ids_there, rows.ids(ids));
  const auto read = [&](const void* data, size_t count) {
    return read_values(device, data, count, type);
  };
  const auto x_values = read(x, size_t{tokens} * kHidden);
  const auto residual_values = read(residual, size_t{tokens} * kHidden);
  const auto vector_values = read_values(device, vectors, 2 * kHidden, DType::kF32);
  const auto gamma_values = std::span(vector_values).first(kHidden);
  const auto beta_values = std::span(vector_values).last(kHidden);
  const double tolerance = rows.tolerance();
  // Compares rows of `out` with the LayerNorm of sum(row, i).
  const auto is_layer_norm =
      [&](const std::function<double(uint32_t, uint32_t)>& sum) -> OperatorRows::Check {
    return [&, sum](const std::string& title) {
      return check_rows(title, read(out, size_t{tokens} * kHidden), tokens, kHidden, tolerance,
                        [&](uint32_t r) {
                          std::vector<double> values;
                          for (uint32_t i = 0; i < kHidden; ++i) values.push_back(sum(r, i));
                          return plain_layer_norm(values, gamma_values, beta_values, 1e-12);
                        });
    };
  };
  const auto word_values = read(words, size_t{kVocab} * kHidden);
  ITIF_TRY(rows.memory_bound(
      title_of("embedding + LayerNorm"), 3 * row,
      [&] {
        stream.launch(kernels::EmbedLayerNorm{.ids = ids_there,
                                              .positions = positions,
                                              .token_types = {},
                                              .ranges = ranges,
                                              .word = shared_slab(words),
                                              .position = shared_slab(words),
                                              .token_type = shared_slab(words),
                                              .gamma = gamma,
                                              .beta = beta,
                                              .hidden = kHidden,
                                              .out = out});
      },
      is_layer_norm([&](uint32_t r, uint32_t i) {
        const auto at = [&](size_t index) { return double{word_values[index * kHidden + i]}; };
        return at(ids[r]) + at(positions[r]) + at(0);
      })));
  ITIF_TRY(rows.memory_bound(
      title_of("residual + LayerNorm"), 3 * row,
      [&] {
        stream.launch(kernels::ResidualLayerNorm{.x = x,
                                                 .residual = residual,
                                                 .gamma = gamma,
                                                 .beta = beta,
                                                 .hidden = kHidden,
                                                 .ranges = ranges,
                                                 .out = out});
      },
      is_layer_norm([&](uint32_t r, uint32_t i) {
        const size_t index = size_t{r} * kHidden + i;
        return double{x_values[index]} + residual_values[index];
      })));
  const size_t wide_bytes = size_t{tokens} * kIntermediate * element;
  ITIF_TRY(rows.in_place(
      title_of("add bias + GELU"), 2 * wide_bytes, {wide_copy, wide, wide_bytes},
      [&] {
        stream.launch(kernels::BiasActivation{.x = wide_copy,
                                              .bias = shared_slab(wide_bias),
                                              .width = kIntermediate,
                                              .activation = kernels::Activation::kGelu,
                                              .ranges = ranges});
      },
      [&](const std::string& title) {
        const auto before = read(wide, size_t{tokens} * kIntermediate);
        const auto biases = read_values(device, wide_bias, kIntermediate, DType::kF32);
        return check_rows(title, read(wide_copy, before.size()), tokens, kIntermediate, tolerance,
                          [&](uint32_t r) {
                            std::vector<double> values;
                            for (size_t i = 0; i < kIntermediate; ++i)
                              values.push_back(plain_gelu(
                                  double{before[size_t{r} * kIntermediate + i]} + biases[i]));
                            return values;
                          });
      }));
  const auto f32_rows = [&](uint32_t count) {
    return read_values(device, f32_out, size_t{count} * kHidden, DType::kF32);
  };
  ITIF_TRY(rows.memory_bound(
      title_of("mean pooling"), row,
      [&] {
        stream.launch(kernels::PoolSegments{.x = x,
                                            .segments = segments,
                                            .chosen = chosen,
                                            .pooling = kernels::Pooling::kMean,
                                            .normalize = true,
                                            .hidden = kHidden,
                                            .out = static_cast<float*>(f32_out)});
      },
      [&](const std::string& title) {
        const auto count = static_cast<uint32_t>(segments.size());
        return check_rows(title, f32_rows(count), count, kHidden, 1e-4, [&](uint32_t s) {
          std::vector<double> sum(kHidden);
          for (size_t r = segments[s].first_row; r < segments[s].first_row + segments[s].num_rows;
               ++r)
            for (size_t i = 0; i < kHidden; ++i) sum[i] += x_values[r * kHidden + i];
          double square = 0;
          for (const double value : sum) square += value * value;
          for (double& value : sum) value /= std::sqrt(square);
          return sum;
        });
      }));
  ITIF_TRY(rows.memory_bound(
      title_of("to f32"), row + row / element * 4,
      [&] {
        stream.launch(kernels::ToF32{
            .x = x, .out = static_cast<float*>(f32_out), .count = size_t{tokens} * kHidden});
      },
      [&](const std::string& title) {
        return check_rows(title, f32_rows(tokens), tokens, kHidden, 0, [&](uint32_t r) {
          const auto begin = x_values.begin() + static_cast<ptrdiff_t>(r) * kHidden;
          return std::vector<double>(begin, begin + kHidden);
        });
      }));
  return attention_rows(rows, tokens, kSegment);
}

}  // namespace

Status bench_operators(const BenchOptions& options, Report& report) {
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        ITIF_ASSIGN(auto rows, OperatorRows::make(options, dtype, device, report));
        for (const uint32_t tokens : kTokens) ITIF_TRY(block_rows(*rows, tokens));
        if (rows->is_gpu()) {
          ITIF_TRY(block_rows(*rows, kTokensOnGpu));
          ITIF_TRY(mixed_attention_rows(*rows, kTokensOnGpu, kSegment));
        }
        ITIF_TRY(image_and_decoder_rows(*rows));
        rows.reset();  // frees its buffers: the following rows need a whole model
        ITIF_TRY(thesis_rows(options, dtype, device, report));
        return get_qkv_rows(options, dtype, device, report);
      });
}

}  // namespace itif::bench
