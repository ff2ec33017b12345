#include "text/marian_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "json/json_file.h"
#include "text/framed_tokenizer.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer_class.h"
#include "text/unicode.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxPieces = 4u << 20;
constexpr std::string_view kMarianClasses[] = {"MarianTokenizer"};
constexpr std::string_view kMetaSpace = "\xe2\x96\x81";  // ▁

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

// transformers' clean_up_tokenization.
void clean_up(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kSteps[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kSteps) replace_all(text, from, to);
}

// Removes the white space that Python's str.strip() removes.
void strip(std::string& text) {
  constexpr std::string_view kSpaces[] = {" ",
                                          "\t",
                                          "\n",
                                          "\v",
                                          "\f",
                                          "\r",
                                          "\x1c",
                                          "\x1d",
                                          "\x1e",
                                          "\x1f",
                                          "\xc2\x85",
                                          "\xc2\xa0",
                                          "\xe1\x9a\x80",
                                          "\xe2\x80\x80",
                                          "\xe2\x80\x81",
                                          "\xe2\x80\x82",
                                          "\xe2\x80\x83",
                                          "\xe2\x80\x84",
                                          "\xe2\x80\x85",
                                          "\xe2\x80\x86",
                                          "\xe2\x80\x87",
                                          "\xe2\x80\x88",
                                          "\xe2\x80\x89",
                                          "\xe2\x80\x8a",
                                          "\xe2\x80\xa8",
                                          "\xe2\x80\xa9",
                                          "\xe2\x80\xaf",
                                          "\xe2\x81\x9f",
                                          "\xe3\x80\x80"};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view space : kSpaces) {
      if (text.ends_with(space)) {
        text.resize(text.size() - space.size());
        again = true;
      }
      if (text.starts_with(space)) {
        text.erase(0, space.size());
        again = true;
      }
    }
  }
}

class MarianTokenizer final : public FramedTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& directory) {
    std::unique_ptr<MarianTokenizer> tokenizer(new MarianTokenizer);
    ITIF_ASSIGN(const TokenizerSettings settings, read_tokenizer_settings(directory));
    ITIF_TRY(check_tokenizer_class(directory, settings.class_name, kMarianClasses));
    ITIF_TRY(tokenizer->read_own_settings(directory + "/tokenizer_config.json"));
    ITIF_TRY(tokenizer->read_vocabulary(directory + "/vocab.json", settings));
    ITIF_TRY(read_sentencepiece(directory + "/source.spm", tokenizer->source_));
    ITIF_TRY(read_sentencepiece(directory + "/target.spm", tokenizer->target_));
    return tokenizer;
  }

  EncodeStatus encode(std::string_view text, std::optional<std::string_view> pair,
                      const EncodeOptions& options, std::vector<int32_t>& ids,
                      std::vector<uint8_t>& token_types) const noexcept override {
    if (pair) return EncodeStatus::kMalformed;
    return FramedTokenizer::encode(text, pair, options, ids, token_types);
  }

  std::string decode(std::span<const int32_t> ids) const noexcept override {
    std::string text;
    try {
      std::vector<std::string> pieces;
      const auto flush = [&] {
        std::string part;  // transformers 5 decodes by the source's model
        if (source_.Decode(pieces, &part).ok()) text += part;
        pieces.clear();
      };
      for (const int32_t id : ids) {
        if (is_special(id)) continue;
        const std::string& piece = piece_at(id);
        if (!is_special_content(piece)) {
          pieces.push_back(piece);
          continue;
        }
        flush();
        text += piece + " ";
      }
      flush();
      replace_all(text, kMetaSpace, " ");
      strip(text);
      if (cleans_up_) clean_up(text);
    } catch (const std::exception&) {  // no memory
      return {};
    }
    return text;
  }

 private:
  MarianTokenizer() = default;

  static constexpr Default kDefaults[] = {
      {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};

  Status read_own_settings(const std::string& path) {
    auto file = json_file::read_json_file(path);
    if (!file && file.error().code == Code::kNotFound) return {};
    ITIF_ASSIGN(const json settings, std::move(file));
    ITIF_ASSIGN(const bool separate,
                json_file::get_bool_or(settings, "separate_vocabs", false, path));
    if (separate)
      return fail(Code::kUnsupported,
                  fmt::format("{}: 'separate_vocabs' must be false, found true", path));
    ITIF_TRY(check_sentencepiece_arguments(settings, path));
    ITIF_ASSIGN(cleans_up_,
                json_file::get_bool_or(settings, "clean_up_tokenization_spaces", false, path));
    return {};
  }

  Status read_vocabulary(const std::string& path, const TokenizerSettings& settings) {
    ITIF_ASSIGN(const json vocabulary, json_file::read_json_file(path));
    for (const auto& [piece, id] : vocabulary.items()) {
      if (!id.is_number_integer() || id < 0 || id.get<uint64_t>() >= kMaxPieces)
        return fail(Code::kCorrupt, fmt::format("{}: '{}' must be an id below {}, found {}", path,
                                                piece, kMaxPieces, json_file::shown(id)));
      const auto number = id.get<int32_t>();
      ids_.emplace(piece, number);
      // The library decodes to the last one in the file.
      if (const auto [other, is_new] = piece_of_.emplace(number, piece); !is_new)
        return fail(Code::kUnsupported,
                    fmt::format("{}: {} and {} must have different ids, found {}", path,
                                json_file::shown(json(other->second)),
                                json_file::shown(json(piece)), number));
      vocab_size_ = std::max(vocab_size_, static_cast<uint32_t>(number) + 1);
    }
    for (const auto& [key, content] : kDefaults) {
      const auto named = settings.names.find(key);
      const std::string token = named == settings.names.end() ? content : named->second.content;
      const auto it = ids_.find(token);
      if (it == ids_.end())
        return fail(Code::kCorrupt,
                    fmt::format("{}: the special token '{}' is missing", path, token));
      if (std::string_view(key) != "unk_token") continue;
      unknown_ = it->second;
      unknown_token_ = token;
    }
    max_tokens_ = settings.max_tokens;
    const auto id_or_none = [&](const std::string& piece) {
      const auto it = ids_.find(piece);
      return it == ids_.end() ? -1 : it->second;
    };
    const TokenFrame frame{.first_key = nullptr, .last_key = "eos_token"};
    if (Status set = set_frame(settings, kDefaults, id_or_none, frame); !set)
      return fail(set.error().code, fmt::format("{}: {}", path, set.error().message));
    for (const auto& [id, token] : specials()) piece_of_[id] = token.content;
    return {};
  }

  // Returns the piece of an id. As in transformers, ids that vocab.json lacks are those of
  // source.spm. transformers fails for ids that both lack. Here they become the unknown token.
  const std::string& piece_at(int32_t id) const {
    const auto it = piece_of_.find(id);
    if (it != piece_of_.end()) return it->second;
    return id >= 0 && id < source_.GetPieceSize() ? source_.IdToPiece(id) : unknown_token_;
  }
  bool is_special_content(const std::string& piece) const {
    const auto it = ids_.find(piece);
    return it != ids_.end() && is_special(it->second);
  }

  int32_t id_of(const std::string& piece) const {
    const auto it = ids_.find(piece);
    return it == ids_.end() ? unknown_ : it->second;
  }

  void append_text(std::string_view text, size_t, std::vector<int32_t>& ids) const override {
    // A language code (>>fra<<) at the beginning is one token.
    const size_t end = text.starts_with(">>") ? text.find("<<") : std::string_view::npos;
    if (end != std::string_view::npos) {
      ids.push_back(id_of(std::string(text.substr(0, end + 2))));
      text.remove_prefix(end + 2);
    }
    std::vector<std::string> pieces;
    if (!source_.Encode(text, &pieces).ok()) return;
    for (const std::string& piece : pieces) ids.push_back(id_of(piece));
  }

  sentencepiece::SentencePieceProcessor source_, target_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, std::string> piece_of_;
  std::string unknown_token_;
  int32_t unknown_ = 0;
  bool cleans_up_ = false;
};

}  // namespace

bool is_marian_directory(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(directory + "/source.spm", error);
}

Result<std::unique_ptr<Tokenizer>> load_marian_tokenizer(const std::string& directory) {
  return MarianTokenizer::load(directory);
}

}  // namespace itif::text
