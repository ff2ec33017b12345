#include "workload/encoder_costs.h"

#include "base/clock.h"
#include "report/timing.h"

namespace itif::bench {
namespace {

constexpr uint32_t kMaxTokens = 128 * 64;

// `count` tenants with `size` requests each.
Result<double> equal_lengths_ns(Encoder& encoder, uint32_t vocab, uint32_t length, uint32_t count,
                                uint32_t size, uint32_t samples) {
  EncoderCase c;
  c.lengths.assign(count, std::vector<uint32_t>(size, length));
  return forward_ns(encoder, Encoder::make_batch(c, vocab), samples);
}

}  // namespace

Result<double> forward_ns(Encoder& encoder, const Encoder::Batch& batch, uint32_t samples) {
  const SystemClock clock;
  Samples times;
  ITIF_TRY(encoder.forward(batch));
  for (uint32_t i = 0; i < samples; ++i) {
    const uint64_t before_ns = clock.now_ns();
    ITIF_TRY(encoder.forward(batch));
    times.add(static_cast<double>(clock.now_ns() - before_ns));
  }
  return times.median();
}

Result<plan::CostTables> measure_encoder_costs(device::Device& device, model::BackboneSpec spec,
                                               uint32_t samples) {
  spec.layers = 1;
  plan::CostTables tables;
  tables.device = device.info().description;
  tables.backbone = model::describe(spec);
  tables.lengths = {8, 32, 64, 128};
  tables.batches = {1, 4, 16, 64};
  tables.counts = {4};
  tables.sizes = {1, 4, 16};
  ITIF_ASSIGN(const auto encoder, Encoder::make(device, spec, tables.counts.back(), kMaxTokens));
  for (const uint32_t length : tables.lengths) {
    for (const uint32_t batch : tables.batches) {
      ITIF_ASSIGN(const double ns,
                  equal_lengths_ns(*encoder, spec.vocab, length, 1, batch, samples));
      tables.gemm_ns.push_back(ns);
    }
    for (const uint32_t count : tables.counts)
      for (const uint32_t size : tables.sizes) {
        ITIF_ASSIGN(const double ns,
                    equal_lengths_ns(*encoder, spec.vocab, length, count, size, samples));
        tables.batched_gemm_ns.push_back(ns);
      }
  }
  ITIF_TRY(plan::validate(tables));
  plan::make_monotone(tables);
  return tables;
}

}  // namespace itif::bench
