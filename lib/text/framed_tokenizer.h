// The common part of RoBERTa's and ALBERT's tokenizers. A special token in a text is encoded as
// that token; the tokenizer's own model cuts the text between special tokens. A first and a last
// token frame the ids; the texts of a pair share one frame.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/tokenizer.h"
#include "text/wordpiece_vocabulary.h"

namespace itif::text {

// A token that is searched for in the text. It removes the white space on the sides that it strips.
struct SpecialToken {
  std::string content;
  int32_t id = 0;
  bool strips_left = false;
  bool strips_right = false;
};

struct TokenFrame {
  int32_t first = 0, last = 0;  // first A last; first A last B last
  bool doubles_last = false;    // first A last last B last
  bool has_types = false;       // a pair's second text, and the token after it, have type 1
};

// The settings in tokenizer_config.json, special_tokens_map.json and added_tokens.json.
struct TokenizerSettings {
  // By key: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token. Keys that
  // the files do not set are absent.
  std::unordered_map<std::string, SpecialToken> names;  // ids are -1
  std::vector<SpecialToken> added;                      // with their ids
  uint32_t max_tokens = UINT32_MAX;
  bool adds_prefix_space = false;
  bool lower_case = true;
  bool keeps_accents = false;
};
// Errors: kCorrupt, kInvalidArgument; messages name the file.
Result<TokenizerSettings> read_tokenizer_settings(const std::string& directory);

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
  // Frames texts with the cls_token and the sep_token as `frame` says. Errors: kCorrupt: either is
  // missing.
  Status set_frame(const TokenizerSettings& settings, std::span<const Default> defaults,
                   const std::function<int32_t(const std::string&)>& id_of, TokenFrame frame);

  uint32_t vocab_size_ = 0;
  uint32_t max_tokens_ = UINT32_MAX;

 private:
  Status set_specials(std::vector<SpecialToken> specials);
  std::vector<int32_t> cut(std::string_view text, size_t most) const;

  WordPieceVocabulary contents_;
  TokenFrame frame_;
  std::array<bool, 256> first_byte_{};  // bytes that special tokens begin with
  std::unordered_map<int32_t, SpecialToken> specials_;
};

}  // namespace itif::text
