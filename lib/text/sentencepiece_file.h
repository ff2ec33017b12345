// Loads a SentencePiece model from a tenant's directory.
#pragma once

#include <sentencepiece_processor.h>

#include <string>

#include "base/error.h"

namespace itif::text {

// Parses a model's bytes. `origin` names them in errors. Errors: kCorrupt.
Status parse_sentencepiece(const std::string& bytes, const std::string& origin,
                           sentencepiece::SentencePieceProcessor& model);
// Errors: kNotFound, kCorrupt; messages name the file.
Status read_sentencepiece(const std::string& path, sentencepiece::SentencePieceProcessor& model);

}  // namespace itif::text
