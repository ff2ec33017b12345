// The tokenizer of RoBERTa directories: byte-level BPE with ids from vocab.json and merges by rank
// from merges.txt, or both from tokenizer.json.
//
// Equal to transformers' RobertaTokenizerFast: a special token in a text is encoded as that token
// ("<mask>" also removes the space before it). A pair is <s> A </s></s> B </s>. Token types are 0.
//
// Source: Sennrich et al., "Neural machine translation of rare words with subword units", ACL 2016,
// over bytes and with the word pattern of Radford et al., "Language models are unsupervised
// multitask learners" (GPT-2), 2019.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

namespace itif::text {

// Returns true if the directory has a merges.txt, or a tokenizer.json with byte-level BPE.
bool is_byte_bpe_directory(const std::string& directory);

// Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_byte_bpe_tokenizer(const std::string& directory);

}  // namespace itif::text
