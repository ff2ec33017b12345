// The tokenizer of Marian directories: source.spm and target.spm (SentencePiece), whose pieces vocab.json
// gives their ids, with tokenizer_config.json where it exists.
//
// As transformers' MarianTokenizer: special tokens in a text are themselves, ">>xx<<" names a target
// language, </s> ends the ids. Its optional normaliser of punctuation (sacremoses) is not part of it: the
// library's own calls do not use it either.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "model/tokenizer.h"

namespace itif::model {

// Whether the directory looks like one: it has a source.spm.
bool is_marian_directory(const std::string& directory);

// Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_marian_tokenizer(const std::string& directory);

}  // namespace itif::model
