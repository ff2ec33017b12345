// The tokenizer of RoBERTa directories: byte-level BPE, whose pieces vocab.json numbers and merges.txt
// ranks; or the same in tokenizer.json.
//
// As transformers' RobertaTokenizerFast: special tokens in a text are themselves ("<mask>" takes the space
// before it away), a pair is <s> A </s></s> B </s>, and all token types are 0.
//
// Source: Sennrich et al., "Neural machine translation of rare words with subword units", ACL 2016, over
// bytes and with the word pattern of Radford et al., "Language models are unsupervised multitask
// learners" (GPT-2), 2019.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "model/tokenizer.h"

namespace itif::model {

// Whether the directory looks like one: it has a merges.txt, or a tokenizer.json whose model is BPE.
bool is_byte_bpe_directory(const std::string& directory);

// Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_byte_bpe_tokenizer(const std::string& directory);

}  // namespace itif::model
