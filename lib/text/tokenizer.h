// Converts text payloads to token ids, as the model's own files define.
//
// Immutable once loaded and shared by threads: encode() keeps nothing between calls. The two
// reference implementations of transformers differ; we follow BertTokenizerFast, which
// AutoTokenizer and sentence-transformers use. tests/reference/README.md lists the differences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace itif::text {

enum class EncodeStatus : uint8_t {
  kOk,
  kMalformed,  // not UTF-8 (overlong forms, surrogates and cut sequences included)
  kTooLong,    // more than max_tokens
};

enum class Truncation : uint8_t {
  kRefuse,        // too many tokens: kTooLong
  kLongestFirst,  // cut the tail of the longer text, as with transformers' truncation=True
};

struct EncodeOptions {
  uint32_t max_tokens = UINT32_MAX;  // special tokens included
  Truncation truncation = Truncation::kRefuse;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of [CLS] text [SEP], and of pair [SEP] if there is one, to `ids`. Appends to
  // `token_types` 0 for each id of the first part and 1 for each of the pair's. Both are unchanged
  // unless the result is kOk. An empty pair is a pair. Allocates only if the vectors lack room:
  // reserve max_tokens, and twice that for pairs that may be cut.
  virtual EncodeStatus encode(std::string_view text, std::optional<std::string_view> pair,
                              const EncodeOptions& options, std::vector<int32_t>& ids,
                              std::vector<uint8_t>& token_types) const noexcept = 0;

  // Returns the text of generated ids without special tokens; empty if the tokenizer cannot decode.
  virtual std::string decode(std::span<const int32_t>) const noexcept { return {}; }

  // The largest id plus one. A model with fewer word embeddings does not fit.
  virtual uint32_t vocab_size() const noexcept = 0;
  // The model's limit in the tokenizer's configuration; UINT32_MAX: none.
  virtual uint32_t max_tokens() const noexcept = 0;
  // The separator's id. In a request of token ids, token type 1 begins after the first separator.
  virtual int32_t separator_id() const noexcept = 0;
};

}  // namespace itif::text
