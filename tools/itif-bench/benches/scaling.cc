// itif-bench scaling: tokens/s, time of a batch and memory of BERT-base, varying one dimension at a
// time: tenants (with the same total of tokens), layers, hidden size and length. The limit is the
// same GEMMs alone.
#include <fmt/format.h>

#include "benches.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"

namespace itif::bench {
namespace {

// Tokens of a batch when varying tenants, and when varying other dimensions.
struct Tokens {
  uint32_t of_tenants, of_one;
};
constexpr Tokens kHostTokens{4096, 512};    // 64 for each of 64 tenants
constexpr Tokens kGpuTokens{16384, 16384};  // 256
constexpr uint32_t kVocab = 1024;

struct Point {
  std::string name;
  model::BackboneSpec spec;
  EncoderCase c;
};

std::vector<std::vector<uint32_t>> requests(uint32_t tenants, uint32_t tokens, uint32_t length) {
  std::vector<std::vector<uint32_t>> lengths(tenants);
  for (uint32_t i = 0; i < tokens / length; ++i) lengths[i % tenants].push_back(length);
  return lengths;
}

std::vector<Point> points(bool quick, const Tokens& tokens) {
  model::BackboneSpec base = bert_base();
  base.vocab = kVocab;
  if (quick) base.layers = 2;
  std::vector<Point> all;
  for (const uint32_t tenants : {1, 2, 4, 8, 16, 32, 64})
    all.push_back({fmt::format("{} tenants", tenants),
                   base,
                   {.name = {}, .lengths = requests(tenants, tokens.of_tenants, 64)}});
  for (const uint32_t layers : {1, 2, 4, 8, 12, 24}) {
    model::BackboneSpec spec = base;
    spec.layers = layers;
    all.push_back({fmt::format("{} layers", layers),
                   spec,
                   {.name = {}, .lengths = requests(1, tokens.of_one, 64)}});
  }
  for (const uint32_t hidden : {256, 512, 768, 1024, 1536}) {
    model::BackboneSpec spec = base;
    spec.hidden = hidden;
    spec.heads = hidden / 64;
    spec.intermediate = 4 * hidden;
    all.push_back({fmt::format("hidden {}", hidden),
                   spec,
                   {.name = {}, .lengths = requests(1, tokens.of_one, 64)}});
  }
  for (const uint32_t length : {8, 16, 32, 64, 128, 256, 512})
    all.push_back({fmt::format("length {}", length),
                   base,
                   {.name = {}, .lengths = requests(1, tokens.of_one, length)}});
  return all;
}

Status run_point(const BenchOptions& options, device::Device& device, const std::string& dtype,
                 const Point& point, Report& report) {
  const std::string name = fmt::format("{}, {}", point.name, dtype);
  if (!options.wants_any({name, point.name})) return {};
  const auto tenants = static_cast<uint32_t>(point.c.lengths.size());
  const uint32_t tokens = point.c.num_tokens();
  const Effort effort =
      options.quick ? Effort{.seconds = 0, .least = 2}
                    : Effort{.seconds = 2, .least = 3, .settled = kLongRuns.settled, .reruns = 1};
  double bytes = 0;
  Samples samples;
  {
    auto encoder =
        Encoder::make(device, point.spec, tenants, tokens, {.fusion_mode = options.fusion_mode()});
    if (!encoder && encoder.error().code == Code::kResourceExhausted) {
      report.note(fmt::format("skipped {}: {}", name, encoder.error().message));
      return {};
    }
    if (!encoder) return std::unexpected(encoder.error());
    bytes = static_cast<double>((*encoder)->bytes());
    const Encoder::Batch batch = Encoder::make_batch(point.c, point.spec.vocab);
    ITIF_ASSIGN(const auto together, (*encoder)->hidden_states(batch));
    const size_t num_requests = batch.offsets.size() - 1;
    for (size_t r = 0; r < std::min<size_t>(tenants, num_requests); ++r) {  // spread over tenants
      const size_t request = r * num_requests / tenants;
      ITIF_ASSIGN(const auto alone, (*encoder)->hidden_states(Encoder::alone(batch, request)));
      const float* const part =
          together.data() + size_t{batch.offsets[request]} * point.spec.hidden;
      if (const double similarity = cosine(part, alone.data(), alone.size());
          !(similarity >= 0.999))
        return fail(Code::kInternal,
                    fmt::format("{}: request {} in the batch differs from alone, cosine {}", name,
                                request, similarity));
    }
    Status status;
    samples = measure({[&] {
                        if (Status s = (*encoder)->forward(batch); !s) status = s;
                      }},
                      effort)[0];
    ITIF_TRY(std::move(status));
  }
  ITIF_ASSIGN(const auto floor, encoder_floor(hardware_of(device.info()), point.spec, point.c));
  const double floor_ns = measure({[&] { floor->run(); }}, effort)[0].median();
  const double rate = tokens / (samples.median() * 1e-9), limit = tokens / (floor_ns * 1e-9);
  report.add({.name = name,
              .mode = "packed",
              .value = rate,
              .unit = "tokens/s",
              .spread = samples.spread(),
              .limit = limit,
              .ratio = rate / limit});
  report.add({.name = name,
              .mode = "packed",
              .value = samples.median() * 1e-6,
              .unit = "ms",
              .spread = samples.spread(),
              .limit = floor_ns * 1e-6,
              .ratio = samples.median() / floor_ns});
  report.add({.name = name, .mode = "packed", .value = bytes / 1e6, .unit = "MB"});
  return {};
}

}  // namespace

Status bench_scaling(const BenchOptions& options, Report& report) {
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        const Tokens& tokens = device.info().kind == "cuda" ? kGpuTokens : kHostTokens;
        for (const Point& point : points(options.quick, tokens))
          ITIF_TRY(run_point(options, device, dtype, point, report));
        return {};
      });
}

}  // namespace itif::bench
