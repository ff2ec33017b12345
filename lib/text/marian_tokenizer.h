// The tokenizer of Marian directories: source.spm and target.spm (SentencePiece), ids of their
// pieces in vocab.json, and tokenizer_config.json if it exists.
//
// Equal to transformers' MarianTokenizer: a special token in a text is encoded as that token,
// ">>xx<<" names a target language, </s> ends the ids. The optional punctuation normaliser
// (sacremoses) is left out; the library's own calls do not use it either.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

namespace itif::text {

// Returns true if the directory has a source.spm.
bool is_marian_directory(const std::string& directory);

// Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_marian_tokenizer(const std::string& directory);

}  // namespace itif::text
