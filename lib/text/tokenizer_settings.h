// The special and added tokens of a Hugging Face directory, and other settings that its small JSON
// files have for every tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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

// The settings in tokenizer_config.json. Without added_tokens_decoder in it, also those of
// special_tokens_map.json, which replace them, and the added tokens of added_tokens.json and
// tokenizer.json. A class that follows tokenizer.json takes its added tokens in any case.
struct TokenizerSettings {
  // By key: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token. Keys that
  // the files do not set are absent.
  std::unordered_map<std::string, SpecialToken> names;  // ids are -1
  std::vector<SpecialToken> more;                       // of read_extra_tokens(); ids are -1
  std::vector<SpecialToken> added;                      // with their ids
  uint32_t max_tokens = UINT32_MAX;
  std::string class_name;  // of read_tokenizer_class()
  // False: the class follows tokenizer.json, and has no tokens that the files do not name.
  bool has_default_tokens = true;
  std::optional<bool> adds_prefix_space;
  bool names_token_types = true;  // false: model_input_names leaves them out, and all are 0
  bool lower_case = true;
  bool keeps_accents = false;
};
// Errors: kCorrupt, kInvalidArgument, kUnsupported (single_word); messages name the file.
Result<TokenizerSettings> read_tokenizer_settings(const std::string& directory);

// Appends the special tokens that the files name beside those seven: extra_special_tokens (a list,
// or an object of named tokens), additional_special_tokens, its older name, in files that lack the
// newer one, and every other key that ends in "_token". `map` is special_tokens_map.json, empty if
// transformers does not read it. Ids are -1. Errors: kInvalidArgument, kUnsupported (single_word).
Status read_extra_tokens(const nlohmann::json& document, const std::string& origin,
                         const nlohmann::json& map, const std::string& map_origin,
                         std::vector<SpecialToken>& extra);

// The added tokens of the settings, by content.
std::map<std::string, int32_t> added_ids(const TokenizerSettings& settings);

// Checks the ids that files give to added tokens, by content. transformers takes the id in the
// vocabulary, or the next free one, whatever the files say. `id_of` returns -1 for tokens that the
// vocabulary lacks. Errors: kUnsupported: a file gives another id.
Status check_added_ids(const std::map<std::string, int32_t>& added, size_t vocabulary_size,
                       const std::function<int32_t(const std::string&)>& id_of,
                       const std::string& directory);

// Returns model_max_length, or max_len, its older name; UINT32_MAX: no limit. Errors:
// kInvalidArgument.
Result<uint32_t> read_max_tokens(const nlohmann::json& settings, const std::string& origin);

// Returns false if the model_input_names of a tokenizer_config.json leave out token_type_ids. The
// second text of a pair then has type 0. Errors: kInvalidArgument.
Result<bool> names_token_types(const nlohmann::json& settings, const std::string& origin);

}  // namespace itif::text
