// The tokenizer of ALBERT directories: spiece.model (SentencePiece), whose ids are the model's, with
// tokenizer_config.json where it exists.
//
// As transformers' AlbertTokenizerFast with the steps of the published models: quotes `` and '' are ",
// accents go and letters are lowered unless the configuration keeps them, white space at the ends does not
// count. Special tokens in a text are themselves ("[MASK]" takes the space before it away); what only lower
// case makes one ("<PAD>") is text, where transformers' takes it for the token.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "model/tokenizer.h"

namespace itif::model {

// Whether the directory looks like one: it has a spiece.model.
bool is_albert_directory(const std::string& directory);

// Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_albert_tokenizer(const std::string& directory);

}  // namespace itif::model
