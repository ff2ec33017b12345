#include "backbone/marian_tensors.h"

#include <fmt/format.h>

#include <cmath>

namespace itif::backbone::marian {
namespace {

using model::Checkpoint;
using model::HostTensor;

// Rounding of a sine that is stored in this type. F32 also has the error of the angle.
float rounding_of(DType type) {
  return type == DType::kF16 ? 0x1p-11f : type == DType::kBF16 ? 0x1p-8f : 0x1p-20f;
}

Status check_embeddings(const model::BackboneSpec& spec, const Checkpoint& checkpoint) {
  const Shape shape{spec.vocab, spec.hidden};
  const std::vector<std::string> names = embedding_names();
  const std::string& chosen = checkpoint.choose(names);
  HostTensor shared;
  for (const std::string& name : names) {
    if (name == chosen || !checkpoint.find(name)) continue;
    if (!shared.data) {
      ITIF_ASSIGN(shared, checkpoint.read(chosen, shape));
    }
    ITIF_ASSIGN(const HostTensor other, checkpoint.read(name, shape));
    for (uint64_t i = 0; i < shape.elements(); ++i) {
      const float expected = shared.view.at(i), found = other.view.at(i);
      if (found == expected) continue;
      return fail(Code::kUnsupported,
                  fmt::format("{}: tensor \"{}\": must be equal to \"{}\", because source, target "
                              "and output share one embedding: element {} is {}, not {}",
                              checkpoint.path_of(name), name, chosen, i, found, expected));
    }
  }
  return {};
}

Status check_positions(const model::BackboneSpec& spec, const Checkpoint& checkpoint) {
  const Shape shape{spec.max_positions, spec.hidden};
  std::vector<float> table;
  for (const char* name :
       {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight",
        "encoder.embed_positions.weight", "decoder.embed_positions.weight"}) {
    if (!checkpoint.find(name)) continue;
    if (table.empty()) table = sinusoids(spec.max_positions, spec.hidden);
    ITIF_ASSIGN(const HostTensor stored, checkpoint.read(name, shape));
    const float tolerance = rounding_of(stored.view.dtype);
    for (uint64_t i = 0; i < shape.elements(); ++i) {
      const float found = stored.view.at(i);
      if (std::abs(found - table[i]) <= tolerance) continue;
      return fail(Code::kUnsupported,
                  fmt::format("{}: tensor \"{}\": must be the sinusoids that are computed: element "
                              "{} is {}, not {}",
                              checkpoint.path_of(name), name, i, found, table[i]));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> embedding_names() {
  return {"model.shared.weight",
          "shared.weight",
          "lm_head.weight",
          "model.encoder.embed_tokens.weight",
          "encoder.embed_tokens.weight",
          "model.decoder.embed_tokens.weight",
          "decoder.embed_tokens.weight"};
}

std::vector<float> sinusoids(uint32_t num_positions, uint32_t hidden) {
  std::vector<float> table(size_t{num_positions} * hidden);
  const uint32_t sines = hidden / 2 + hidden % 2;
  for (uint32_t position = 0; position < num_positions; ++position)
    for (uint32_t j = 0; j < hidden; ++j) {
      const double angle = position / std::pow(10000.0, 2.0 * static_cast<double>(j / 2) / hidden);
      float* row = table.data() + size_t{position} * hidden;
      if (j % 2 == 0)
        row[j / 2] = static_cast<float>(std::sin(angle));
      else
        row[sines + j / 2] = static_cast<float>(std::cos(angle));
    }
  return table;
}

Status check_tensors(const model::BackboneSpec& spec, const Checkpoint& checkpoint) {
  ITIF_TRY(check_embeddings(spec, checkpoint));
  return check_positions(spec, checkpoint);
}

}  // namespace itif::backbone::marian
