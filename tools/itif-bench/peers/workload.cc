#include "peers/workload.h"

#include <algorithm>
#include <numeric>

#include "backbone/marian_decoder.h"

namespace itif::bench {
namespace {

constexpr uint32_t kVocab = 1024;

}  // namespace

model::BackboneSpec Workload::spec() const {
  model::BackboneSpec spec = backbone::find_preset(preset).value()->spec;
  if (!decodes())  // in a decoder the vocabulary is one of the GEMMs: keep its size
    spec.vocab = std::min(spec.vocab, kVocab);
  if (layers != 0) {
    spec.layers = layers;
    for (model::SpecField& field : spec.own)
      if (field.key == backbone::marian::kLayers) field.value = uint64_t{layers};
  }
  return spec;
}

Encoder::Batch Workload::batch() const {
  const model::BackboneSpec spec = this->spec();
  if (spec.takes_images()) return Encoder::make_images(requests, spec);
  return fusion_mode == backbone::FusionMode::kThesis
             ? Encoder::make_padded_batch(requests, spec.vocab)
             : Encoder::make_batch(requests, spec.vocab);
}

Result<std::unique_ptr<device::Device>> open_device(const Workload& workload, uint32_t threads) {
  return device::open_device({.kind = workload.on.is_gpu ? "cuda" : "host",
                              .dtype = std::string(compute_name(workload.on.compute)),
                              .attention = workload.attention,
                              .num_threads = threads});
}

uint32_t threads_of_tenant(const Workload& workload, uint32_t tenant) {
  std::vector<uint32_t> tokens, threads(workload.num_tenants(), 1);
  for (const std::vector<uint32_t>& lengths : workload.requests.lengths)
    tokens.push_back(std::accumulate(lengths.begin(), lengths.end(), uint32_t{0}));
  for (uint32_t left = workload.on.threads; left > threads.size(); --left) {
    size_t busiest = 0;
    for (size_t t = 1; t < threads.size(); ++t)
      if (uint64_t{tokens[t]} * threads[busiest] > uint64_t{tokens[busiest]} * threads[t])
        busiest = t;
    ++threads[busiest];
  }
  return threads[tenant];
}

}  // namespace itif::bench
