// Text to token ids, as the model's own files say: what a text payload becomes before it is a batch's
// rows.
//
// Immutable once loaded and shared by threads: encode() keeps nothing between calls. Where the two
// reference implementations of transformers differ, we are BertTokenizerFast (what AutoTokenizer and
// sentence-transformers use); tests/reference/README.md lists the differences.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace itif::model {

enum class EncodeStatus : uint8_t {
  kOk,
  kMalformed,  // not UTF-8 (overlong forms, surrogates and cut sequences included)
  kTooLong,    // more than max_tokens
};

enum class Truncation : uint8_t {
  kRefuse,        // too many tokens: kTooLong
  kLongestFirst,  // cut the tail of the longer text, as transformers' truncation=True does
};

struct EncodeOptions {
  uint32_t max_tokens = UINT32_MAX;  // special tokens included
  Truncation truncation = Truncation::kRefuse;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of [CLS] text [SEP] (and of pair [SEP], where there is one) to `ids`, and to
  // `token_types` 0 for each of the first part and 1 for each of the pair's. Anything but kOk leaves
  // both as they were. An empty pair is a pair. Allocates only when the vectors lack the room:
  // reserve max_tokens ahead, and twice that for pairs that may be cut.
  virtual EncodeStatus encode(std::string_view text, std::optional<std::string_view> pair,
                              const EncodeOptions& options, std::vector<int32_t>& ids,
                              std::vector<uint8_t>& token_types) const noexcept = 0;

  // What generated ids are as text, special tokens left out; empty where a tokenizer has no such text.
  virtual std::string decode(std::span<const int32_t>) const noexcept { return {}; }

  // One more than the largest id: a model with fewer word embeddings does not fit.
  virtual uint32_t vocab_size() const noexcept = 0;
  // What the tokenizer's configuration names as the model's limit; UINT32_MAX: nothing.
  virtual uint32_t max_tokens() const noexcept = 0;
  // The separator's id: where token types change in a request of ready ids.
  virtual int32_t separator_id() const noexcept = 0;
};

// Loads what a Hugging Face directory holds: source.spm (marian_tokenizer.h), spiece.model
// (albert_tokenizer.h), merges.txt or BPE in tokenizer.json (byte_bpe.h); or WordPiece in tokenizer.json,
// or else vocab.txt; with tokenizer_config.json, special_tokens_map.json and added_tokens.json where they
// exist. Errors: kNotFound, none of these; kCorrupt, a file that cannot be read as what it is, or lacks a
// token it names; kUnsupported, a tokenizer of another kind, or with a step that this build does not have.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& directory);

}  // namespace itif::model
