// BERT's tokenizer: cleans the text, splits it into words, and cuts each word into the longest
// pieces that the vocabulary has (Schuster and Nakajima, "Japanese and Korean voice search", 2012).
//
// Equal to transformers' BertTokenizerFast, id for id. A special token in a text ("[SEP]") is
// encoded as that token.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/wordpiece_normalizer.h"
#include "text/wordpiece_vocabulary.h"

namespace itif::text {

// A token that is searched for in the text before it is split into words.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool normalized = false;  // searched for in the normalised text, so case and accents may differ
};

struct WordPieceConfig {
  WordPieceVocabulary::Tokens tokens;
  std::string continuation_prefix = "##";
  std::string unknown_token = "[UNK]";
  std::string classifier_token = "[CLS]";
  std::string separator_token = "[SEP]";
  // The ids that tokenizer.json's post_processor gives to them; -1: not one id.
  int32_t written_classifier_id = -1;
  int32_t written_separator_id = -1;
  uint32_t max_word_characters = 100;  // longer words are unknown
  NormalizerOptions normalizer;
  std::vector<AddedToken> added_tokens;
  uint32_t max_tokens = UINT32_MAX;
  bool has_types = true;  // false: the second text of a pair has type 0
};

class WordPieceTokenizer : public Tokenizer {
 public:
  static constexpr uint32_t kMaxWordCharacters = 256;

  // Errors: kCorrupt: a special token that the vocabulary lacks, or an id out of range.
  // kUnsupported: words longer than kMaxWordCharacters.
  static Result<std::unique_ptr<WordPieceTokenizer>> create(const WordPieceConfig& config);

  EncodeStatus encode(std::string_view text, std::optional<std::string_view> pair,
                      const EncodeOptions& options, std::vector<int32_t>& ids,
                      std::vector<uint8_t>& token_types) const noexcept override;
  uint32_t vocab_size() const noexcept override { return vocab_size_; }
  uint32_t max_tokens() const noexcept override { return max_tokens_; }
  int32_t separator_id() const noexcept override { return separator_id_; }

 private:
  class WordCutter;
  // Finds tokens at any position of a text.
  struct TokenFinder {
    WordPieceVocabulary tokens;
    std::array<bool, 256> first{};  // bytes that tokens begin with
    bool empty = true;

    Status build(const std::vector<AddedToken>& added, bool normalized,
                 const NormalizerOptions& normalizer);
    WordPieceVocabulary::Match at(const char* text, const char* end) const noexcept {
      if (!first[static_cast<uint8_t>(*text)]) return {};
      return tokens.longest({text, static_cast<size_t>(end - text)}, true);
    }
  };

  WordPieceTokenizer() = default;
  Status find_special_tokens(const WordPieceConfig& config);
  void find_plain_letters();
  void encode_part(std::string_view text, WordCutter& cutter) const noexcept;
  void encode_stream(const char* at, const char* end, WordCutter& cutter) const noexcept;
  void encode_kept(const char* at, const char* end, WordCutter& cutter) const noexcept;
  void encode_normalized(std::string_view text, WordCutter& cutter) const noexcept;

  const CodePointClasses& classes_ = CodePointClasses::get();
  WordPieceVocabulary vocabulary_;
  NormalizerOptions normalizer_;
  TokenFinder raw_tokens_;
  TokenFinder normalized_tokens_;
  // By byte: the normalised form of an ASCII letter or digit that begins no added token; 0: any
  // other byte.
  std::array<char, 256> plain_letter_{};
  uint32_t max_word_characters_ = 0;
  uint32_t vocab_size_ = 0;
  uint8_t pair_type_ = 1;  // of the second text
  uint32_t max_tokens_ = UINT32_MAX;
  int32_t unknown_id_ = 0;
  int32_t classifier_id_ = 0;
  int32_t separator_id_ = 0;
};

}  // namespace itif::text
