// Loads a SentencePiece model from a tenant's directory.
#pragma once

#include <sentencepiece_processor.h>

#include <string>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::text {

// Parses a model's bytes. `origin` names them in errors. Errors: kCorrupt.
Status parse_sentencepiece(const std::string& bytes, const std::string& origin,
                           sentencepiece::SentencePieceProcessor& model);
// Errors: kNotFound, kCorrupt; messages name the file.
Status read_sentencepiece(const std::string& path, sentencepiece::SentencePieceProcessor& model);
// Returns the bytes of a model's file. Errors: kNotFound, kCorrupt.
Result<std::string> read_sentencepiece_bytes(const std::string& path);
// Replaces the scores of the pieces in a model's bytes, in order. Errors: kCorrupt: damaged bytes,
// or another number of pieces with scores.
Status replace_scores(std::string& bytes, const std::vector<float>& scores,
                      const std::string& origin);
// Checks 'sp_model_kwargs' of a tokenizer_config.json. Errors: kUnsupported: it enables sampling or
// sets anything else that changes the pieces.
Status check_sentencepiece_arguments(const nlohmann::json& settings, const std::string& origin);

}  // namespace itif::text
