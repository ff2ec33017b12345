// itif-bench operators: what a forward pass does besides its GEMMs, at BERT-base's sizes. Operators
// bound by memory stand against a copy that reads and writes as many bytes by as many threads;
// attention stands against the machine's rate of GEMMs.
#include <fmt/format.h>
#include <omp.h>

#include <cmath>
#include <cstring>

#include "bare_gemm.h"
#include "base/random.h"
#include "benches.h"
#include "device/device.h"
#include "kernels/host/operators.h"

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
  void memory_bound(const std::string& name, uint32_t tokens, size_t bytes,
                    const std::function<void()>& launch);
  void attention(uint32_t tokens, const std::function<void()>& launch);

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
void Operators::memory_bound(const std::string& name, uint32_t tokens, size_t bytes,
                             const std::function<void()>& launch) {
  const std::string title = fmt::format("{} {}", name, tokens);
  if (!options_.wants(title)) return;
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
}

void Operators::attention(uint32_t tokens, const std::function<void()>& launch) {
  const std::string title = fmt::format("attention {}", tokens);
  if (!options_.wants(title)) return;
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
  std::vector<uint32_t> offsets = {0}, positions, segments;
  std::vector<int32_t> ids;
  Random random(3);
  for (uint32_t i = 0; i < tokens; ++i) {
    positions.push_back(i % kSegment);
    ids.push_back(static_cast<int32_t>(random.below(kVocab)));
  }
  while (offsets.back() < tokens) {
    segments.push_back(static_cast<uint32_t>(segments.size()));
    offsets.push_back(std::min(tokens, offsets.back() + kSegment));
  }

  memory_bound("embedding + LayerNorm", tokens, 3 * row, [&] {
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
  });
  memory_bound("residual + LayerNorm", tokens, 3 * row, [&] {
    stream->residual_layer_norm({.x = x,
                                 .residual = residual,
                                 .gamma = gamma,
                                 .beta = beta,
                                 .hidden = kHidden,
                                 .ranges = ranges,
                                 .out = out});
  });
  const size_t wide_bytes = size_t{tokens} * kIntermediate * element;
  // In place: repeated, the values would shrink to zero. A fresh copy each time, and its cost apart.
  memory_bound("GELU, and a copy before it,", tokens, 4 * wide_bytes, [&] {
    std::memcpy(wide_copy, wide, wide_bytes);
    kernels::host::bias_activation({.x = wide_copy,
                                    .bias = {},
                                    .width = kIntermediate,
                                    .activation = kernels::Activation::kGelu,
                                    .ranges = ranges},
                                   {.activation = type, .num_threads = device_.info().num_threads});
  });
  memory_bound("mean pooling", tokens, row, [&] {
    stream->pool_segments({.x = x,
                           .offsets = offsets,
                           .segments = segments,
                           .pooling = kernels::Pooling::kMean,
                           .normalize = true,
                           .hidden = kHidden,
                           .out = static_cast<float*>(f32_out)});
  });
  memory_bound("to f32", tokens, row + row / element * 4, [&] {
    stream->to_f32(
        {.x = x, .out = static_cast<float*>(f32_out), .count = size_t{tokens} * kHidden});
  });
  attention(tokens, [&] {
    stream->attention({.qkv = qkv,
                       .out = out,
                       .offsets = offsets,
                       .num_heads = kHeads,
                       .head_size = kHidden / kHeads,
                       .scale = 0.125f});
  });
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
