// The tokenizer of ALBERT directories: spiece.model (SentencePiece), whose ids are the model's, and
// tokenizer_config.json if it exists.
//
// Equal to transformers' AlbertTokenizerFast with the steps of the published models: quotes `` and
// '' become ", accents are stripped and letters lower-cased unless the configuration keeps them,
// white space at both ends is ignored. A special token in a text is encoded as that token ("[MASK]"
// also removes the space before it). One difference: text that equals a special token only after
// lower-casing ("<PAD>") stays text; transformers takes it for the token.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

namespace itif::text {

// Returns true if the directory has a spiece.model.
bool is_albert_directory(const std::string& directory);

// Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_albert_tokenizer(const std::string& directory);

}  // namespace itif::text
