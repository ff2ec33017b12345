// itif-bench operators: what a forward pass does besides its GEMMs, at BERT-base's sizes. Operators
// bound by memory stand against a copy that reads and writes as many bytes by as many threads;
// attention stands against the machine's rate of GEMMs.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bare_gemm.h"
#include "base/random.h"
#include "benches.h"
#include "device/device.h"
#include "kernels/host/operators.h"
#include "operator_checks.h"

namespace itif::bench {
namespace {

constexpr uint32_t kHidden = 768, kHeads = 12, kIntermediate = 3072, kVocab = 30522;
constexpr uint32_t kTokens[] = {32, 128, 512};
constexpr uint32_t kSegment = 128;  // longest

class Operators {
 public:
  Operators(const BenchOptions& options, std::string dtype, device::Device& device, Report& report)
      : options_(options), dtype_(std::move(dtype)), device_(device), report_(report) {}

  Status run(uint32_t tokens);

 private:
  // Buffers of random activations (or f32) and a slab of one slot.
  Result<void*> random_buffer(size_t elements, DType type);
  // What must hold of an operator's results after a launch.
  using Check = std::function<Status(const std::string& title)>;
  Status memory_bound(const std::string& name, uint32_t tokens, size_t bytes,
                      const std::function<void()>& launch, const Check& check);
  Status attention(uint32_t tokens, const std::function<void()>& launch, const Check& check);

  const BenchOptions& options_;
  const std::string dtype_;
  device::Device& device_;
  Report& report_;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
};

Result<void*> Operators::random_buffer(size_t elements, DType type) {
  Random random(elements);
  std::vector<float> values(elements);
  for (float& v : values) v = static_cast<float>(random.uniform() * 4 - 2);
  ITIF_ASSIGN(auto buffer, device_.allocate(elements * dtype_bytes(type)));
  ITIF_TRY(
      device_.upload({reinterpret_cast<const std::byte*>(values.data()), DType::kF32, {elements}},
                     type, buffer->data()));
  buffers_.push_back(std::move(buffer));
  return buffers_.back()->data();
}

// bytes: read and written together.
Status Operators::memory_bound(const std::string& name, uint32_t tokens, size_t bytes,
                               const std::function<void()>& launch, const Check& check) {
  const std::string title = fmt::format("{} {}", name, tokens);
  if (!options_.wants(title)) return {};
  launch();
  ITIF_TRY(check(title));
  std::vector<std::byte> from(bytes / 2), to(bytes / 2);
  const auto copy = [&] {
    kernels::host::parallel_rows({.num_threads = device_.info().num_threads},
                                 static_cast<uint32_t>(from.size()), 4096,
                                 [&](uint32_t begin, uint32_t end) {
                                   std::memcpy(to.data() + begin, from.data() + begin, end - begin);
                                 });
  };
  const auto samples = measure({launch, copy}, options_.effort());
  report_.add({.name = title,
               .mode = dtype_,
               .value = samples[0].median() * 1e-3,
               .unit = "us",
               .spread = samples[0].spread(),
               .limit = samples[1].median() * 1e-3,
               .ratio = samples[0].median() / samples[1].median()});
  return {};
}

Status Operators::attention(uint32_t tokens, const std::function<void()>& launch,
                            const Check& check) {
  const std::string title = fmt::format("attention {}", tokens);
  if (!options_.wants(title)) return {};
  launch();
  ITIF_TRY(check(title));
  const auto gemm =
      make_bare_gemm(device_.info().compute, 128, kHidden, kHidden, device_.info().num_threads);
  const uint32_t length = std::min(tokens, kSegment);
  const double flop = 4.0 * tokens * length * kHidden;
  const double gemm_flop = 2.0 * 128 * kHidden * kHidden;
  const auto samples = measure({launch, [&] { gemm->run(); }}, options_.effort());
  const double limit_ns = samples[1].median() * flop / gemm_flop;
  report_.add({.name = title,
               .mode = dtype_,
               .value = samples[0].median() * 1e-3,
               .unit = "us",
               .spread = samples[0].spread(),
               .limit = limit_ns * 1e-3,
               .ratio = samples[0].median() / limit_ns});
  return {};
}

Status Operators::run(uint32_t tokens) {
  const DType type = device_.info().compute;
  const size_t element = dtype_bytes(type), row = size_t{tokens} * kHidden * element;
  ITIF_ASSIGN(const auto stream, device_.make_stream());
  stream->attach_thread();
  ITIF_ASSIGN(void* const x, random_buffer(tokens * kHidden, type));
  ITIF_ASSIGN(void* const residual, random_buffer(tokens * kHidden, type));
  ITIF_ASSIGN(void* const out, random_buffer(tokens * kHidden, type));
  ITIF_ASSIGN(void* const qkv, random_buffer(tokens * 3 * kHidden, type));
  ITIF_ASSIGN(void* const wide, random_buffer(tokens * kIntermediate, type));
  ITIF_ASSIGN(void* const wide_copy, random_buffer(tokens * kIntermediate, type));
  ITIF_ASSIGN(void* const words, random_buffer(kVocab * kHidden, type));
  ITIF_ASSIGN(void* const vectors, random_buffer(2 * kHidden, DType::kF32));
  ITIF_ASSIGN(void* const f32_out, random_buffer(tokens * kHidden, DType::kF32));
  const auto slab = [](void* data) {
    return kernels::Slab{.base = static_cast<std::byte*>(data), .stride_bytes = 0};
  };
  const kernels::Slab gamma = slab(vectors), beta = slab(static_cast<float*>(vectors) + kHidden);
  const std::vector<kernels::RowRange> ranges = {{.first_row = 0, .num_rows = tokens, .slot = 0}};
  std::vector<uint32_t> positions, chosen;
  std::vector<kernels::SegmentRows> segments;
  std::vector<int32_t> ids;
  Random random(3);
  for (uint32_t i = 0; i < tokens; ++i) {
    positions.push_back(i % kSegment);
    ids.push_back(static_cast<int32_t>(random.below(kVocab)));
  }
  for (uint32_t row = 0; row < tokens; row += kSegment) {
    chosen.push_back(static_cast<uint32_t>(segments.size()));
    segments.push_back({row, std::min(kSegment, tokens - row)});
  }

  const auto read = [&](const void* data, size_t count) {
    return read_values(device_, data, count, type);
  };
  const auto x_values = read(x, size_t{tokens} * kHidden);
  const auto residual_values = read(residual, size_t{tokens} * kHidden);
  const auto vector_values = read_values(device_, vectors, 2 * kHidden, DType::kF32);
  const auto gamma_values = std::span(vector_values).first(kHidden);
  const auto beta_values = std::span(vector_values).last(kHidden);
  const double tolerance = type == DType::kBF16 ? 0.01 : 1e-5;
  // Rows of `out` against LayerNorm of sum(row, i).
  const auto is_layer_norm = [&](const std::function<double(uint32_t, uint32_t)>& sum) -> Check {
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
  ITIF_TRY(memory_bound(
      "embedding + LayerNorm", tokens, 3 * row,
      [&] {
        stream->embed_layer_norm({.ids = ids.data(),
                                  .positions = positions,
                                  .token_types = {},
                                  .ranges = ranges,
                                  .word = slab(words),
                                  .position = slab(words),
                                  .token_type = slab(words),
                                  .gamma = gamma,
                                  .beta = beta,
                                  .hidden = kHidden,
                                  .out = out});
      },
      is_layer_norm([&](uint32_t r, uint32_t i) {
        const auto at = [&](size_t place) { return double{word_values[place * kHidden + i]}; };
        return at(static_cast<size_t>(ids[r])) + at(positions[r]) + at(0);
      })));
  ITIF_TRY(memory_bound(
      "residual + LayerNorm", tokens, 3 * row,
      [&] {
        stream->residual_layer_norm({.x = x,
                                     .residual = residual,
                                     .gamma = gamma,
                                     .beta = beta,
                                     .hidden = kHidden,
                                     .ranges = ranges,
                                     .out = out});
      },
      is_layer_norm([&](uint32_t r, uint32_t i) {
        const size_t place = size_t{r} * kHidden + i;
        return double{x_values[place]} + residual_values[place];
      })));
  const size_t wide_bytes = size_t{tokens} * kIntermediate * element;
  // In place: repeated, the values would shrink to zero. A fresh copy each time, and its cost apart.
  ITIF_TRY(memory_bound(
      "GELU, and a copy before it,", tokens, 4 * wide_bytes,
      [&] {
        std::memcpy(wide_copy, wide, wide_bytes);
        kernels::host::bias_activation(
            {.x = wide_copy,
             .bias = {},
             .width = kIntermediate,
             .activation = kernels::Activation::kGelu,
             .ranges = ranges},
            {.activation = type, .num_threads = device_.info().num_threads});
      },
      [&](const std::string& title) {
        const auto before = read(wide, size_t{tokens} * kIntermediate);
        return check_rows(title, read(wide_copy, before.size()), tokens, kIntermediate, tolerance,
                          [&](uint32_t r) {
                            std::vector<double> values;
                            for (size_t i = 0; i < kIntermediate; ++i)
                              values.push_back(plain_gelu(before[size_t{r} * kIntermediate + i]));
                            return values;
                          });
      }));
  const auto f32_rows = [&](uint32_t rows) {
    return read_values(device_, f32_out, size_t{rows} * kHidden, DType::kF32);
  };
  ITIF_TRY(memory_bound(
      "mean pooling", tokens, row,
      [&] {
        stream->pool_segments({.x = x,
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
  ITIF_TRY(memory_bound(
      "to f32", tokens, row + row / element * 4,
      [&] {
        stream->to_f32(
            {.x = x, .out = static_cast<float*>(f32_out), .count = size_t{tokens} * kHidden});
      },
      [&](const std::string& title) {
        return check_rows(title, f32_rows(tokens), tokens, kHidden, 0, [&](uint32_t r) {
          const auto begin = x_values.begin() + static_cast<ptrdiff_t>(r) * kHidden;
          return std::vector<double>(begin, begin + kHidden);
        });
      }));
  const auto qkv_values = read(qkv, size_t{tokens} * 3 * kHidden);
  ITIF_TRY(attention(
      tokens,
      [&] {
        stream->attention({.qkv = qkv,
                           .out = out,
                           .segments = segments,
                           .num_heads = kHeads,
                           .head_size = kHidden / kHeads,
                           .scale = 0.125f});
      },
      [&](const std::string& title) {
        return check_rows(title, read(out, size_t{tokens} * kHidden), tokens, kHidden,
                          3 * tolerance, [&](uint32_t r) {
                            const uint32_t first = r / kSegment * kSegment;
                            return plain_attention(qkv_values, r, first,
                                                   std::min(tokens, first + kSegment), kHeads,
                                                   kHidden / kHeads, 0.125);
                          });
      }));
  return stream->synchronize();
}

}  // namespace

Status bench_operators(const BenchOptions& options, Report& report) {
  for (const std::string& dtype : options.dtypes) {
    auto device =
        device::open_device({.kind = "host", .dtype = dtype, .num_threads = options.threads});
    if (!device && device.error().code == Code::kUnsupported) {
      report.note(fmt::format("skipped {}: {}", dtype, device.error().message));
      continue;
    }
    if (!device) return std::unexpected(device.error());
    report.set_device((*device)->info().description);
    Operators operators(options, dtype, **device, report);
    for (const uint32_t tokens : kTokens) ITIF_TRY(operators.run(tokens));
  }
  return {};
}

}  // namespace itif::bench
