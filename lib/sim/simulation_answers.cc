// Payloads of the requests, and whether answers are those that they must have.
#include <cstring>

#include "device/sim/next_tokens.h"
#include "device/sim/row_marks.h"
#include "model/text_positions.h"
#include "sim/simulation.h"

namespace itif::sim {

std::span<const uint16_t> Simulation::payload_of(const Pending& pending) const {
  if (pending.num_output > 0) return pending.source;
  return std::span(sources_[pending.group].ids).subspan(pending.first_id, pending.num_tokens);
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
  const auto text = payload_of(pending);
  const std::vector<int32_t> ids(text.begin(), text.end());
  std::vector<uint32_t> positions(text.size());
  const model::BackboneSpec& spec = sources_[pending.group].spec;
  model::TextPositions(spec).number(std::as_bytes(text).data(), text.size(), sizeof(text[0]),
                                    positions.data());
  return logit == device::expected_logit(pending.mark, ids, positions, spec.layers);
}

}  // namespace itif::sim
