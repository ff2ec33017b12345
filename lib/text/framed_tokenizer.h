// The common part of RoBERTa's, ALBERT's and Marian's tokenizers. A special token in a text is
// encoded as that token; the tokenizer's own model cuts the text between special tokens. A first
// and a last token frame the ids; the texts of a pair share one frame.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
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
  bool is_special = true;   // left out of decoded text
  bool has_flags = false;   // the file sets the flags above
  bool normalized = false;  // searched for in normalised text
};

struct TokenFrame {
  // Settings that name the tokens. No first_key: texts have no first token.
  const char* first_key = "cls_token";
  const char* last_key = "sep_token";
  int32_t first = -1, last = -1;  // first A last; first A last B last
  bool doubles_last = false;      // first A last last B last
  bool has_types = false;         // a pair's second text, and the token after it, have type 1
};

// The settings in tokenizer_config.json, special_tokens_map.json and added_tokens.json. Without
// added_tokens_decoder in the first, the added tokens of tokenizer.json, too.
struct TokenizerSettings {
  // By key: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token. Keys that
  // the files do not set are absent.
  std::unordered_map<std::string, SpecialToken> names;  // ids are -1
  std::vector<SpecialToken> more;                       // of additional_special_tokens; ids are -1
  std::vector<SpecialToken> added;                      // with their ids
  uint32_t max_tokens = UINT32_MAX;
  std::string class_name;  // empty: not set
  std::optional<bool> adds_prefix_space;
  bool names_token_types = true;  // false: model_input_names leaves them out, and all are 0
  bool lower_case = true;
  bool keeps_accents = false;
};
// Errors: kCorrupt, kInvalidArgument, kUnsupported (single_word); messages name the file.
Result<TokenizerSettings> read_tokenizer_settings(const std::string& directory);

// Returns false if the model_input_names of a tokenizer_config.json leave out token_type_ids. The
// second text of a pair then has type 0. Errors: kInvalidArgument.
Result<bool> names_token_types(const nlohmann::json& settings, const std::string& origin);

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
  Status set_specials(std::vector<SpecialToken> specials);
  std::vector<int32_t> cut(std::string_view text, size_t most) const;

  WordPieceVocabulary contents_;
  TokenFrame frame_;
  std::array<bool, 256> first_byte_{};  // bytes that special tokens begin with
  std::unordered_map<int32_t, SpecialToken> specials_;
};

}  // namespace itif::text
