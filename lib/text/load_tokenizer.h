// Chooses the tokenizer of a directory by the files that it holds.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

namespace itif::text {

// Loads the tokenizer of a Hugging Face directory from the first that exists: source.spm
// (marian_tokenizer.h), spiece.model (albert_tokenizer.h), merges.txt or BPE in tokenizer.json
// (byte_bpe.h), WordPiece in tokenizer.json, vocab.txt. Also reads tokenizer_config.json,
// special_tokens_map.json and added_tokens.json if they exist. Errors: kNotFound: none of these.
// kCorrupt: a file is malformed, or lacks a token that it names. kUnsupported: a tokenizer of
// another kind, or with a step that this build does not have.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& directory);

}  // namespace itif::text
