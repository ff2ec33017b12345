// Finds the class that transformers would load a directory's tokenizer with, and refuses a class
// whose tokens would differ from those of the tokenizer that the directory's files suggest.
//
// Files alone do not tell: published models of BERT's layout have a vocab.txt that a morphological
// analyser precedes, and others a merges.txt that is not byte-level, or a spiece.model of T5.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::text {

// Returns 'tokenizer_class' of tokenizer_config.json, else of config.json, else the class of
// config.json's 'model_type', without "Fast" at its end. Empty: there is none of these. Errors:
// kInvalidArgument, and kCorrupt for tokenizer_config.json.
Result<std::string> read_tokenizer_class(const std::string& directory);

// The file that a WordPiece tokenizer's class takes its steps from: normaliser, model, template.
enum class BertSteps : uint8_t {
  kSettings,       // tokenizer_config.json; of tokenizer.json the vocabulary and added tokens only
  kFileWithFrame,  // tokenizer.json, but tokenizer_config.json names the tokens of the template
  kFile,           // tokenizer.json
};
// REQUIRES: the class passes check_bert_class().
BertSteps steps_of_bert_class(std::string_view name);
// Returns true for the classes that ignore do_lower_case and always lower-case.
bool is_dpr_class(std::string_view name);

// Returns true for classes that read tokenizer_config.json, and of tokenizer.json only vocabulary,
// merges and added tokens.
bool is_roberta_class(std::string_view name);

// Returns true if the class takes everything from tokenizer.json, and the directory has this file.
bool follows_tokenizer_json(const std::string& directory, std::string_view name);

// Errors: kUnsupported: `name` is neither empty nor one of `accepted`.
Status check_tokenizer_class(const std::string& directory, const std::string& name,
                             std::span<const std::string_view> accepted);
// Also accept a class that follows tokenizer.json.
Status check_bert_class(const std::string& directory, const std::string& name);
Status check_roberta_class(const std::string& directory, const std::string& name);

}  // namespace itif::text
