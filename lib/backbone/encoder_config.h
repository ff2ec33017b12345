// Reads the config.json fields that transformers' encoders share, under each family's keys.
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
  // transformers reads position_embedding_type, and the flags that make an encoder a decoder.
  bool reads_position_type = true;
  bool reads_decoder_flags = true;
};

// Parses sizes, activation and epsilon of the blocks, each within bounds. Errors: as Family::parse.
Result<model::BackboneSpec> parse_blocks(const nlohmann::json& config, const std::string& origin,
                                         const char* family, const EncoderKeys& keys = {});
// Writes the fields that parse_blocks reads.
nlohmann::ordered_json blocks_config(const model::BackboneSpec& spec, const EncoderKeys& keys = {});

// Parses the blocks and tables of a text encoder. Settings that would change the computation
// (relative positions, decoders) are refused by name. Errors: as Family::parse.
Result<model::BackboneSpec> parse_encoder(const nlohmann::json& config, const std::string& origin,
                                          const char* family, const EncoderKeys& keys = {});
// Writes the fields that parse_encoder reads.
nlohmann::ordered_json encoder_config(const model::BackboneSpec& spec,
                                      const EncoderKeys& keys = {});

// Returns the activation that transformers calls `name`. Errors: kUnsupported, listing the
// supported ones.
Result<kernels::Activation> parse_activation(const std::string& name, const std::string& origin,
                                             const char* key = "hidden_act");

}  // namespace itif::backbone
