// The special and added tokens of a Hugging Face directory, and other settings that its small JSON
// files have for every tokenizer.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace itif::text {

// A token that is searched for in the text. It removes the white space on the sides that it strips.
struct SpecialToken {
  std::string content;
  int32_t id = 0;
  bool strips_left = false;
  bool strips_right = false;
  bool is_special = true;   // left out of decoded text
  bool has_flags = false;   // the file sets the flags above
  bool normalized = false;  // searched for in normalised text
};

// The settings in tokenizer_config.json, special_tokens_map.json and added_tokens.json. Without
// added_tokens_decoder in the first, the added tokens of tokenizer.json, too.
struct TokenizerSettings {
  // By key: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token. Keys that
  // the files do not set are absent.
  std::unordered_map<std::string, SpecialToken> names;  // ids are -1
  std::vector<SpecialToken> more;                       // of additional_special_tokens; ids are -1
  std::vector<SpecialToken> added;                      // with their ids
  uint32_t max_tokens = UINT32_MAX;
  std::string class_name;  // of read_tokenizer_class()
  std::optional<bool> adds_prefix_space;
  bool names_token_types = true;  // false: model_input_names leaves them out, and all are 0
  bool lower_case = true;
  bool keeps_accents = false;
};
// Errors: kCorrupt, kInvalidArgument, kUnsupported (single_word); messages name the file.
Result<TokenizerSettings> read_tokenizer_settings(const std::string& directory);

// Returns false if the model_input_names of a tokenizer_config.json leave out token_type_ids. The
// second text of a pair then has type 0. Errors: kInvalidArgument.
Result<bool> names_token_types(const nlohmann::json& settings, const std::string& origin);

}  // namespace itif::text
