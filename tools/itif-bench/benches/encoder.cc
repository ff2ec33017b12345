// itif-bench encoder: BERT-base from token ids and ViT-base from pixels to the last hidden states.
// The limit is their GEMMs alone.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "benches.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"

namespace itif::bench {
namespace {

const std::vector<EncoderCase> kTexts = {
    {"1x32", {{32}}},
    {"1x128", {{128}}},
    {"4x128", {{128, 128, 128, 128}}},
    {"8x64", {{64, 64, 64, 64, 64, 64, 64, 64}}},
    {"4 tenants, 10 lengths 5-200", {{128, 17}, {64, 33, 9}, {200}, {5, 48, 77, 31}}},
};
constexpr uint32_t kImage = 197;  // tokens of ViT-base's images
const std::vector<EncoderCase> kImages = {
    {"vit-base 1 image", {{kImage}}},
    {"vit-base 4 images", {{kImage, kImage, kImage, kImage}}},
    {"vit-base 4 tenants, 8 images",
     {{kImage, kImage, kImage}, {kImage}, {kImage, kImage}, {kImage, kImage}}},
};
// GPU only: batches large enough to keep it busy.
const std::vector<EncoderCase> kManyTexts = {
    {"128x128", {std::vector<uint32_t>(128, 128)}},
    {"4 tenants, 128x128", std::vector<std::vector<uint32_t>>(4, std::vector<uint32_t>(32, 128))}};
constexpr uint32_t kEncoderTenants = 4;

// Each segment must have the same result in the batch and alone, except for rounding: other
// segments change the order of some sums.
Status check_alone(Encoder& encoder, const EncoderCase& c, const Encoder::Batch& batch,
                   const model::BackboneSpec& spec, DType type) {
  ITIF_ASSIGN(const std::vector<float> together, encoder.hidden_states(batch));
  const size_t num_segments = batch.offsets.size() - 1;
  const size_t step = std::max<size_t>(1, num_segments / 16);  // of many segments, about 16
  for (size_t s = 0; s < num_segments; s += step) {
    ITIF_ASSIGN(const std::vector<float> alone, encoder.hidden_states(Encoder::alone(batch, s)));
    const float* part = together.data() + size_t{batch.offsets[s]} * spec.hidden;
    double worst = 0;
    for (size_t i = 0; i < alone.size(); ++i)
      worst = std::max(worst, double{std::abs(part[i] - alone[i])});
    const double similarity = cosine(part, alone.data(), alone.size());
    if (!(similarity >= 0.999) || (type == DType::kF32 && !(worst <= 1e-4)))
      return fail(Code::kInternal,
                  fmt::format("{}: segment {} in the batch differs from alone by {}, cosine {}",
                              c.name, s, worst, similarity));
  }
  return {};
}

struct Reference {
  std::map<std::string, std::vector<float>> hidden;  // by case, from f32
};

Status run_model(const BenchOptions& options, device::Device& device,
                 const model::BackboneSpec& spec, const std::vector<EncoderCase>& cases,
                 const std::string& dtype, Reference& reference, Report& report) {
  const DType type = device.info().compute.activations;
  std::unique_ptr<Encoder> encoder;  // made for the first selected case
  for (const EncoderCase& c : cases) {
    if (!options.wants(c.name)) continue;
    if (!encoder) {
      uint32_t most = 0;
      for (const EncoderCase& one : cases) most = std::max(most, one.num_tokens());
      ITIF_ASSIGN(encoder, Encoder::make(device, spec, kEncoderTenants, most,
                                         {.fusion_mode = options.fusion_mode()}));
    }
    const Encoder::Batch batch =
        spec.takes_images() ? Encoder::make_images(c, spec) : Encoder::make_batch(c, spec.vocab);
    ITIF_TRY(check_alone(*encoder, c, batch, spec, type));
    ITIF_ASSIGN(std::vector<float> hidden, encoder->hidden_states(batch));
    if (type == DType::kF32) {
      reference.hidden[c.name] = std::move(hidden);
    } else if (const auto f32 = reference.hidden.find(c.name); f32 != reference.hidden.end()) {
      const double similarity = cosine(hidden.data(), f32->second.data(), hidden.size());
      if (!(similarity >= 0.999))
        return fail(Code::kInternal, fmt::format("{} in {}: differs from f32, cosine {}", c.name,
                                                 dtype, similarity));
    }
    ITIF_ASSIGN(const auto floor, encoder_floor(hardware_of(device.info()), spec, c));
    Status status;
    const auto samples = measure({[&] {
                                    if (Status s = encoder->forward(batch); !s) status = s;
                                  },
                                  [&] { floor->run(); }},
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
  const model::BackboneSpec vit = backbone::find_preset("vit-base").value()->spec;
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        std::vector<EncoderCase> texts = kTexts;
        if (device.info().kind == "cuda")
          texts.insert(texts.end(), kManyTexts.begin(), kManyTexts.end());
        ITIF_TRY(run_model(options, device, bert_base(), texts, dtype, reference, report));
        return run_model(options, device, vit, kImages, dtype, reference, report);
      });
}

}  // namespace itif::bench
