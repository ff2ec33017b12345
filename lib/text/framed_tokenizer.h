// The common part of RoBERTa's, ALBERT's and Marian's tokenizers. A special token in a text is
// encoded as that token; the tokenizer's own model cuts the text between special tokens. A first
// and a last token frame the ids; the texts of a pair share one frame.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tokenizer_settings.h"
#include "text/wordpiece_vocabulary.h"

namespace itif::text {

struct TokenFrame {
  // Settings that name the tokens. No first_key: texts have no first token.
  const char* first_key = "cls_token";
  const char* last_key = "sep_token";
  int32_t first = -1, last = -1;  // first A last; first A last B last
  bool doubles_last = false;      // first A last last B last
  bool has_types = false;         // a pair's second text, and the token after it, have type 1
  // Tokens that are searched for in normalised text match only in the text that the others leave.
  bool normalized_last = false;
};

class FramedTokenizer : public Tokenizer {
 public:
  EncodeStatus encode(std::string_view text, std::optional<std::string_view> pair,
                      const EncodeOptions& options, std::vector<int32_t>& ids,
                      std::vector<uint8_t>& token_types) const noexcept override;
  uint32_t vocab_size() const noexcept override { return vocab_size_; }
  uint32_t max_tokens() const noexcept override { return max_tokens_; }
  int32_t separator_id() const noexcept override { return frame_.last; }

 protected:
  // Appends the ids of a text without special tokens. May stop once `ids` has `most` entries. May
  // throw std::bad_alloc. `text` is UTF-8 and not empty.
  virtual void append_text(std::string_view text, size_t most, std::vector<int32_t>& ids) const = 0;

  // A special token's key in the settings, and its content if they do not set it.
  struct Default {
    const char *key, *content;
  };
  // Finds the special tokens by their contents (`id_of` returns -1 if the vocabulary lacks one).
  // Frames texts as `frame` says. Errors: kCorrupt: a token of the frame is missing; kUnsupported:
  // the vocabulary lacks an additional special token.
  Status set_frame(const TokenizerSettings& settings, std::span<const Default> defaults,
                   const std::function<int32_t(const std::string&)>& id_of, TokenFrame frame);

  int32_t first_id() const { return frame_.first; }
  // Returns true if decoded text leaves out the token.
  bool is_special(int32_t id) const;
  // The special and added tokens by id, once set_frame() has returned.
  const std::unordered_map<int32_t, SpecialToken>& specials() const { return specials_; }

  uint32_t vocab_size_ = 0;
  uint32_t max_tokens_ = UINT32_MAX;

 private:
  // Special tokens that are searched for together: the leftmost matches first, then the longest.
  struct Finder {
    WordPieceVocabulary contents;
    std::array<bool, 256> first_byte{};  // bytes that tokens begin with
    bool empty = true;
  };

  Status set_specials(std::vector<SpecialToken> specials);
  // Appends the ids of the finder's tokens, and calls append(text) for each text between them. May
  // stop once `ids` has `most` entries.
  template <class Append>
  void split(std::string_view text, const Finder& finder, size_t most, std::vector<int32_t>& ids,
             const Append& append) const;
  std::vector<int32_t> cut(std::string_view text, size_t most) const;

  Finder finder_;
  Finder normalized_finder_;  // of the frame's normalized_last
  TokenFrame frame_;
  std::unordered_map<int32_t, SpecialToken> specials_;
};

}  // namespace itif::text
