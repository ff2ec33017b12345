// Reads the files of a Hugging Face directory that describe a WordPiece tokenizer into one
// WordPieceConfig, with transformers' precedence:
//
//   tokenizer.json           vocabulary and added tokens, if it exists; also the steps, unless the
//                            class builds its own, as BertTokenizer does (BertSteps); otherwise
//   vocab.txt                one token per line; the line number, from 0, is the id
//   tokenizer_config.json    do_lower_case, strip_accents, tokenize_chinese_chars of BertTokenizer;
//                            special tokens' names; model_max_length; added_tokens_decoder
//   special_tokens_map.json, added_tokens.json   only without added_tokens_decoder
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/wordpiece.h"

namespace itif::text {

// Errors: as load_tokenizer(); messages name the file.
Result<WordPieceConfig> read_wordpiece_files(const std::string& directory);

// Parses the text of a vocab.txt. `origin` names it in errors. Errors: kCorrupt: not UTF-8.
Result<WordPieceVocabulary::Tokens> parse_vocabulary(std::string_view text,
                                                     const std::string& origin);
// Parses the text of a tokenizer.json. Errors: kCorrupt, kInvalidArgument, kUnsupported.
Result<WordPieceConfig> parse_tokenizer_json(std::string_view text, const std::string& origin);
// Reads the template of a tokenizer.json's post_processor, which must be BERT's, to
// classifier_token and separator_token, and the ids that it gives them. Errors: kCorrupt,
// kUnsupported.
Status read_post_processor(const nlohmann::json& document, const std::string& origin,
                           WordPieceConfig& config);
// Compares an id of a post_processor with the vocabulary's, for classes that use the former. An id
// of -1, which the vocabulary lacks, is the caller's to report. Errors: kUnsupported.
Status check_written_id(int32_t written, const std::string& token, int32_t id,
                        const std::string& origin);
// Reads an added token of tokenizer.json or added_tokens_decoder, except its id, which the caller
// reads. Errors: kCorrupt, kInvalidArgument, kUnsupported.
Result<AddedToken> read_added_token(const nlohmann::json& entry, const std::string& origin);

}  // namespace itif::text
