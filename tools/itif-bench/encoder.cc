// itif-bench encoder: BERT-base from token ids to the last hidden states, against the floor of its
// GEMMs alone.
#include <fmt/format.h>

#include <cmath>

#include "benches.h"
#include "encoder_setup.h"

namespace itif::bench {
namespace {

const std::vector<EncoderCase> kCases = {
    {"1x32", {{32}}},
    {"1x128", {{128}}},
    {"4x128", {{128, 128, 128, 128}}},
    {"8x64", {{64, 64, 64, 64, 64, 64, 64, 64}}},
    {"4 tenants, 10 lengths 5-200", {{128, 17}, {64, 33, 9}, {200}, {5, 48, 77, 31}}},
};
constexpr uint32_t kTenants = 4;

// Each segment of the batch must come out as it does alone. Arithmetic does not depend on the
// neighbours but for the order of some sums.
Status check_alone(Encoder& encoder, const EncoderCase& c, const Encoder::Batch& batch,
                   const model::BackboneSpec& spec, DType type) {
  ITIF_ASSIGN(const std::vector<float> together, encoder.hidden_states(batch));
  for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    ITIF_ASSIGN(const std::vector<float> alone, encoder.hidden_states(Encoder::alone(batch, s)));
    const float* part = together.data() + size_t{batch.offsets[s]} * spec.hidden;
    double worst = 0;
    for (size_t i = 0; i < alone.size(); ++i)
      worst = std::max(worst, double{std::abs(part[i] - alone[i])});
    const double similarity = cosine(part, alone.data(), alone.size());
    if (!(similarity >= 0.999) || (type == DType::kF32 && !(worst <= 1e-4)))
      return fail(Code::kInternal,
                  fmt::format("{}: segment {} differs from itself alone by {}, cosine {}", c.name,
                              s, worst, similarity));
  }
  return {};
}

struct Reference {
  std::vector<std::vector<float>> hidden;  // by case, from f32
};

Status run_mode(const BenchOptions& options, const std::string& dtype, Reference& reference,
                Report& report) {
  auto opened =
      device::open_device({.kind = "host", .dtype = dtype, .num_threads = options.threads});
  if (!opened && opened.error().code == Code::kUnsupported) {
    report.note(fmt::format("skipped {}: {}", dtype, opened.error().message));
    return {};
  }
  if (!opened) return std::unexpected(opened.error());
  device::Device& device = **opened;
  const DType type = device.info().compute;
  report.set_device(device.info().description);
  const model::BackboneSpec spec = bert_base();
  ITIF_ASSIGN(const auto encoder, Encoder::make(device, spec, kTenants, 1024));

  for (size_t i = 0; i < kCases.size(); ++i) {
    const EncoderCase& c = kCases[i];
    if (!options.wants(c.name)) continue;
    const Encoder::Batch batch = Encoder::make_batch(c, spec.vocab);
    ITIF_TRY(check_alone(*encoder, c, batch, spec, type));
    ITIF_ASSIGN(std::vector<float> hidden, encoder->hidden_states(batch));
    if (type == DType::kF32) {
      reference.hidden[i] = std::move(hidden);
    } else if (!reference.hidden[i].empty()) {
      const double similarity = cosine(hidden.data(), reference.hidden[i].data(), hidden.size());
      if (!(similarity >= 0.999))
        return fail(Code::kInternal,
                    fmt::format("{} in {}: cosine {} to f32", c.name, dtype, similarity));
    }
    EncoderFloor floor(type, spec, c, device.info().num_threads);
    Status status;
    const auto samples = measure({[&] {
                                    if (Status s = encoder->forward(batch); !s) status = s;
                                  },
                                  [&] { floor.run(); }},
                                 options.effort());
    ITIF_TRY(std::move(status));
    report.add({.name = c.name,
                .mode = dtype,
                .value = samples[0].median() * 1e-6,
                .unit = "ms",
                .spread = samples[0].spread(),
                .limit = samples[1].median() * 1e-6,
                .ratio = samples[0].median() / samples[1].median()});
  }
  return {};
}

}  // namespace

Status bench_encoder(const BenchOptions& options, Report& report) {
  Reference reference;
  reference.hidden.resize(kCases.size());
  for (const std::string& dtype : options.dtypes)
    ITIF_TRY(run_mode(options, dtype, reference, report));
  return {};
}

}  // namespace itif::bench
