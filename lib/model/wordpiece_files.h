// The files of a Hugging Face directory that describe a WordPiece tokenizer, read into one
// WordPieceConfig with the precedence that transformers gives them:
//
//   tokenizer.json           everything, if it exists; otherwise
//   vocab.txt                a token a line, its number the id
//   tokenizer_config.json    do_lower_case, strip_accents, tokenize_chinese_chars override both;
//                            special tokens' names; model_max_length; added_tokens_decoder
//   special_tokens_map.json, added_tokens.json   where added_tokens_decoder is not
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "model/wordpiece.h"

namespace itif::model {

// Errors: as load_tokenizer(); messages name the file.
Result<WordPieceConfig> read_wordpiece_files(const std::string& directory);

// The text of a vocab.txt. `origin` names it in errors. Errors: kCorrupt, not UTF-8.
Result<WordPieceVocabulary::Tokens> parse_vocabulary(std::string_view text,
                                                     const std::string& origin);
// The text of a tokenizer.json. Errors: kCorrupt, kInvalidArgument, kUnsupported.
Result<WordPieceConfig> parse_tokenizer_json(std::string_view text, const std::string& origin);
// An added token as tokenizer.json and added_tokens_decoder write it; its id is the caller's to read.
// Errors: kCorrupt, kInvalidArgument, kUnsupported.
Result<AddedToken> read_added_token(const nlohmann::json& entry, const std::string& origin);

}  // namespace itif::model
