#include "model/spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace itif::model {
namespace {

std::string text_of(const SpecField& field) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, field.value);
}

const SpecField* find(const BackboneSpec& spec, std::string_view key) {
  const auto it = std::ranges::find(spec.own, key, &SpecField::key);
  return it == spec.own.end() ? nullptr : &*it;
}

}  // namespace

uint64_t BackboneSpec::number(std::string_view key) const {
  const SpecField* field = find(*this, key);
  CHECK(field != nullptr && std::holds_alternative<uint64_t>(field->value));
  return std::get<uint64_t>(field->value);
}

std::string ImageInput::size_text() const {
  return fmt::format("{}x{}x{}", height, width, channels);
}

const char* activation_name(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::kNone: return "none";
    case kernels::Activation::kGelu: return "gelu";
    case kernels::Activation::kGeluTanh: return "gelu_tanh";
    case kernels::Activation::kRelu: return "relu";
    case kernels::Activation::kTanh: return "tanh";
    case kernels::Activation::kSilu: return "silu";
  }
  return "?";
}

std::string signature(const BackboneSpec& spec) {
  std::string text =
      fmt::format("{}-{}x{}-{}-{}-{}-{:g}", spec.family, spec.layers, spec.hidden, spec.heads,
                  spec.intermediate, activation_name(spec.activation), spec.layer_norm_eps);
  if (spec.takes_images()) text += fmt::format("-{}-{}", spec.image.size_text(), spec.image.patch);
  for (const SpecField& field : spec.own) text += "-" + text_of(field);
  return text;
}

std::string describe(const BackboneSpec& spec) {
  const std::string blocks = fmt::format("{} {}x{}, {} heads, intermediate {}", spec.family,
                                         spec.layers, spec.hidden, spec.heads, spec.intermediate);
  if (spec.takes_images())
    return fmt::format("{}, images {} in patches of {}", blocks, spec.image.size_text(),
                       spec.image.patch);
  return fmt::format("{}, vocabulary {}, {} positions", blocks, spec.vocab, spec.max_positions);
}

Status check_fits(const BackboneSpec& group, const BackboneSpec& model) {
  std::string differences;
  const auto compare = [&](const char* field, const auto& wanted, const auto& found, bool fits,
                           const char* bound) {
    if (fits) return;
    if (!differences.empty()) differences += "; ";
    differences += fmt::format("{}: group has {}{}, model has {}", field, bound, wanted, found);
  };
  const auto equal = [&](const char* field, const auto& wanted, const auto& found) {
    compare(field, wanted, found, wanted == found, "");
  };
  const auto at_most = [&](const char* field, uint32_t wanted, uint32_t found) {
    compare(field, wanted, found, found <= wanted, "room for ");
  };
  equal("model_type", group.family, model.family);
  equal("num_hidden_layers", group.layers, model.layers);
  equal("hidden_size", group.hidden, model.hidden);
  equal("num_attention_heads", group.heads, model.heads);
  equal("intermediate_size", group.intermediate, model.intermediate);
  equal("hidden_act", std::string(activation_name(group.activation)),
        std::string(activation_name(model.activation)));
  equal("layer_norm_eps", group.layer_norm_eps, model.layer_norm_eps);
  const auto size = [](const BackboneSpec& spec) {
    return fmt::format("{}x{}", spec.image.height, spec.image.width);
  };
  equal("image_size", size(group), size(model));
  equal("num_channels", group.image.channels, model.image.channels);
  equal("patch_size", group.image.patch, model.image.patch);
  at_most("vocab_size", group.vocab, model.vocab);
  at_most("max_position_embeddings", group.max_positions, model.max_positions);
  at_most("type_vocab_size", group.type_vocab, model.type_vocab);
  if (group.family == model.family) {
    for (const SpecField& wanted : group.own) {
      const SpecField* found = find(model, wanted.key);
      equal(wanted.key.c_str(), text_of(wanted), found ? text_of(*found) : std::string("none"));
    }
  }
  if (differences.empty()) return {};
  return fail(Code::kInvalidArgument, differences);
}

}  // namespace itif::model
