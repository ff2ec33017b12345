// What the config.json of transformers' encoders have in common, under the keys of each family.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"
#include "model/spec.h"

namespace itif::backbone {

struct EncoderKeys {
  const char* layers = "num_hidden_layers";
  const char* hidden = "hidden_size";
  const char* heads = "num_attention_heads";
  const char* intermediate = "intermediate_size";
  const char* activation = "hidden_act";
  const char* default_activation = "gelu";
  bool is_encoder_decoder = false;  // the family has a decoder and reads its part itself
};

// Sizes, activation and epsilon of the blocks, each within bounds. Errors: as Family::parse.
Result<model::BackboneSpec> parse_blocks(const nlohmann::json& config, const std::string& origin,
                                         const char* family, const EncoderKeys& keys = {});
// The fields that parse_blocks reads.
nlohmann::ordered_json blocks_config(const model::BackboneSpec& spec, const EncoderKeys& keys = {});

// The blocks of a text encoder and its tables; what would change the computation (relative positions,
// decoders) is refused by name. Errors: as Family::parse.
Result<model::BackboneSpec> parse_encoder(const nlohmann::json& config, const std::string& origin,
                                          const char* family, const EncoderKeys& keys = {});
// The fields that parse_encoder reads.
nlohmann::ordered_json encoder_config(const model::BackboneSpec& spec,
                                      const EncoderKeys& keys = {});

// The activation that transformers calls `name`. Errors: kUnsupported, with those that are.
Result<kernels::Activation> parse_activation(const std::string& name, const std::string& origin,
                                             const char* key = "hidden_act");

}  // namespace itif::backbone
