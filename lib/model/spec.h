// A backbone is the architecture that all tenants of a group share. Two models with equal specs run
// as one instance on concatenated weights (ITIF, section 3.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "kernels/args.h"

namespace itif::model {

// A field of config.json that only some families have.
struct SpecField {
  std::string key;
  std::variant<uint64_t, double, std::string> value;
  bool operator==(const SpecField&) const = default;
};

// The input of an image model: images of one size, cut into square patches.
struct ImageInput {
  uint32_t height = 0, width = 0, channels = 0, patch = 0;

  // Counts whole patches; pixels past the last whole patch are ignored.
  uint32_t patches() const { return (height / patch) * (width / patch); }
  uint64_t values() const { return uint64_t{height} * width * channels; }
  uint32_t patch_values() const { return channels * patch * patch; }
  std::string size_text() const;  // "224x224x3"
  bool operator==(const ImageInput&) const = default;
};

struct BackboneSpec {
  std::string family;  // config.json's model_type: "bert"
  uint32_t layers = 0;
  uint32_t hidden = 0;
  uint32_t heads = 0;
  uint32_t intermediate = 0;
  kernels::Activation activation = kernels::Activation::kGelu;
  float layer_norm_eps = 1e-12f;
  // Rows of the embedding tables. A tenant may have fewer than its group, whose rows set the size
  // of a slot.
  uint32_t vocab = 0;
  uint32_t max_positions = 0;
  uint32_t type_vocab = 0;  // 0: the family has no token types
  // Row of the position table that a text's first token takes. RoBERTa leaves those before it
  // unused, except the last for the padding id (model/text_positions.h).
  uint32_t position_base = 0;
  ImageInput image = {};            // all 0: the family takes token ids
  std::vector<SpecField> own = {};  // fields of this family only, in its order

  uint32_t head_size() const { return hidden / heads; }
  bool takes_images() const { return image.patch != 0; }
  // Limit of one request; an image always has this many.
  uint32_t max_tokens() const { return max_positions - position_base; }
  // A number among `own`. REQUIRES: `key` is in `own` and its value is a number.
  uint64_t number(std::string_view key) const;
  bool operator==(const BackboneSpec&) const = default;
};

// Equal for specs that may share a group, whatever their table sizes:
// "bert-12x768-12-3072-gelu-1e-12", "vit-12x768-12-3072-gelu-1e-12-224x224x3-16"; the values of the
// family's own fields follow.
std::string signature(const BackboneSpec& spec);
// Human-readable: "bert 12x768, 12 heads, intermediate 3072, vocabulary 30522, 512 positions",
// "vit 12x768, 12 heads, intermediate 3072, images 224x224x3 in patches of 16".
std::string describe(const BackboneSpec& spec);
// "gelu", "gelu_tanh", "relu", ….
const char* activation_name(kernels::Activation activation);

// Checks that a model may become a tenant of a group: all fields equal, tables no larger. Errors:
// kInvalidArgument, naming each field that differs as config.json does: "hidden_size: group has
// 768, model has 384".
Status check_fits(const BackboneSpec& group, const BackboneSpec& model);

}  // namespace itif::model
