// Makes the payloads of requests, and checks their answers.
#include <cstring>

#include "device/sim/next_tokens.h"
#include "device/sim/row_marks.h"
#include "model/text_positions.h"
#include "sim/simulation.h"
#include "wire/payload.h"

namespace itif::sim {

void Simulation::make_payloads(size_t group) {
  Source& source = sources_[group];
  const model::ImageInput& input = source.spec.image;
  if (!source.spec.takes_images()) {
    for (size_t i = 0; i < kIdTable + appliance_->max_tokens(group); ++i)
      source.ids.push_back(static_cast<uint16_t>(random_.below(source.spec.vocab)));
    return;
  }
  // No cost depends on the pixels, so all are 0.
  const wire::ImagePrefix prefix = {.height = static_cast<uint16_t>(input.height),
                                    .width = static_cast<uint16_t>(input.width),
                                    .channels = static_cast<uint16_t>(input.channels)};
  source.image.resize(sizeof(prefix) + input.values());
  std::memcpy(source.image.data(), &prefix, sizeof(prefix));
}

std::span<const uint16_t> Simulation::text_of(const Pending& pending) const {
  if (pending.num_output > 0) return pending.source;
  return std::span(sources_[pending.group].ids).subspan(pending.first_id, pending.num_tokens);
}

std::span<const std::byte> Simulation::payload_of(const Pending& pending) const {
  const Source& source = sources_[pending.group];
  return source.image.empty() ? std::as_bytes(text_of(pending)) : std::span(source.image);
}

bool Simulation::is_right(const Pending& pending, std::span<const std::byte> result) const {
  if (pending.num_output > 0) return has_right_tokens(pending, result);
  return !scenario_.passes_marks || has_right_logit(pending, result);
}

bool Simulation::has_right_tokens(const Pending& pending, std::span<const std::byte> result) const {
  std::vector<int32_t> tokens(pending.num_output);
  if (result.size() != tokens.size() * sizeof(tokens[0])) return false;
  std::memcpy(tokens.data(), result.data(), result.size());
  if (!scenario_.passes_marks) return tokens.back() == device::kEndToken;
  const std::vector<int32_t> source(pending.source.begin(), pending.source.end());
  const model::BackboneSpec& spec = sources_[pending.group].spec;
  return tokens ==
         device::expected_tokens(pending.mark, source,
                                 {.encoder_layers = spec.layers,
                                  .layers = static_cast<uint32_t>(spec.number("decoder_layers")),
                                  .vocab = spec.vocab,
                                  .start = static_cast<int32_t>(spec.vocab) - 1,
                                  .end = device::kEndToken});
}

bool Simulation::has_right_logit(const Pending& pending, std::span<const std::byte> result) const {
  float logit = 0;
  if (result.size() < sizeof(logit)) return false;
  std::memcpy(&logit, result.data(), sizeof(logit));
  const auto text = text_of(pending);
  const std::vector<int32_t> ids(text.begin(), text.end());
  std::vector<uint32_t> positions(text.size());
  const model::BackboneSpec& spec = sources_[pending.group].spec;
  model::TextPositions(spec).number(std::as_bytes(text).data(), text.size(), sizeof(text[0]),
                                    positions.data());
  return logit == device::expected_logit(pending.mark, ids, positions, spec.layers);
}

}  // namespace itif::sim
