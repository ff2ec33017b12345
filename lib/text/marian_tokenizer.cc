#include "text/marian_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "json/json_file.h"
#include "text/sentencepiece_file.h"
#include "text/unicode.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxPieces = 4u << 20;
constexpr std::string_view kMetaSpace = "\xe2\x96\x81";  // ▁

struct Settings {
  std::string eos = "</s>", unknown = "<unk>", padding = "<pad>";
  uint32_t max_tokens = UINT32_MAX;
  bool clean_up = true;
};

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

// Matches the regular expression >>.+<< in one line. Returns its begin and end; no match: npos, 0.
std::pair<size_t, size_t> language_code(std::string_view line) {
  const size_t begin = line.find(">>");
  const size_t end = line.rfind("<<");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin + 3)
    return {std::string_view::npos, 0};
  return {begin, end + 2};
}

class MarianTokenizer final : public Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& directory) {
    std::unique_ptr<MarianTokenizer> tokenizer(new MarianTokenizer);
    ITIF_TRY(tokenizer->read_settings(directory + "/tokenizer_config.json"));
    ITIF_TRY(tokenizer->read_vocabulary(directory + "/vocab.json"));
    ITIF_TRY(read_sentencepiece(directory + "/source.spm", tokenizer->source_));
    ITIF_TRY(read_sentencepiece(directory + "/target.spm", tokenizer->target_));
    return tokenizer;
  }

  EncodeStatus encode(std::string_view text, std::optional<std::string_view> pair,
                      const EncodeOptions& options, std::vector<int32_t>& ids,
                      std::vector<uint8_t>& token_types) const noexcept override {
    if (!is_utf8(text) || pair) return EncodeStatus::kMalformed;
    const size_t before = ids.size();
    try {
      append_ids(text, ids);
    } catch (const std::exception&) {  // no memory
      ids.resize(before);
      return EncodeStatus::kTooLong;
    }
    if (ids.size() - before + 1 > options.max_tokens) {
      if (options.truncation == Truncation::kRefuse || options.max_tokens == 0) {
        ids.resize(before);
        return EncodeStatus::kTooLong;
      }
      ids.resize(before + options.max_tokens - 1);
    }
    ids.push_back(eos_);
    token_types.resize(token_types.size() + ids.size() - before, 0);
    return EncodeStatus::kOk;
  }

  std::string decode(std::span<const int32_t> ids) const noexcept override {
    std::string text;
    try {
      std::vector<std::string> pieces;
      const auto flush = [&] {
        std::string part;
        if (target_.Decode(pieces, &part).ok()) text += part;
        pieces.clear();
      };
      for (const int32_t id : ids) {
        if (id == eos_ || id == unknown_ || id == padding_) continue;
        const auto it = piece_of_.find(id);
        if (it != piece_of_.end()) {
          pieces.push_back(it->second);
          continue;
        }
        // As in transformers, an id without a piece becomes the unknown token.
        flush();
        text += settings_.unknown + " ";
      }
      flush();
      replace_all(text, kMetaSpace, " ");
      strip(text);
      if (settings_.clean_up) clean_up(text);
    } catch (const std::exception&) {  // no memory
      return {};
    }
    return text;
  }

  uint32_t vocab_size() const noexcept override { return vocab_size_; }
  uint32_t max_tokens() const noexcept override { return settings_.max_tokens; }
  int32_t separator_id() const noexcept override { return eos_; }

 private:
  MarianTokenizer() = default;

  Status read_settings(const std::string& path) {
    auto file = json_file::read_json_file(path);
    if (!file && file.error().code == Code::kNotFound) return {};
    ITIF_ASSIGN(const json settings, std::move(file));
    ITIF_ASSIGN(const bool separate,
                json_file::get_bool_or(settings, "separate_vocabs", false, path));
    if (separate)
      return fail(Code::kUnsupported,
                  fmt::format("{}: 'separate_vocabs' must be false, found true", path));
    const auto kwargs = settings.find("sp_model_kwargs");
    if (kwargs != settings.end() && !kwargs->is_null() && !kwargs->empty())
      return fail(Code::kUnsupported, fmt::format("{}: 'sp_model_kwargs' must be empty, found {}",
                                                  path, json_file::shown(*kwargs)));
    for (const auto& [key, token] : {std::pair{"eos_token", &settings_.eos},
                                     {"unk_token", &settings_.unknown},
                                     {"pad_token", &settings_.padding}}) {
      const auto it = settings.find(key);
      if (it == settings.end() || it->is_null()) continue;
      if (it->is_object()) {
        ITIF_ASSIGN(*token, json_file::get_string_or(*it, "content", *token, path));
      } else {
        ITIF_ASSIGN(*token, json_file::get_string_or(settings, key, *token, path));
      }
      if (token->empty())
        return fail(Code::kInvalidArgument,
                    fmt::format("{}: '{}' must be a token, found nothing", path, key));
    }
    ITIF_ASSIGN(settings_.clean_up,
                json_file::get_bool_or(settings, "clean_up_tokenization_spaces", true, path));
    // Files write a very large number for "no limit".
    ITIF_ASSIGN(const double most,
                json_file::get_number_or(settings, "model_max_length", 1, 1e31, UINT32_MAX, path));
    settings_.max_tokens = most >= UINT32_MAX ? UINT32_MAX : static_cast<uint32_t>(most);
    return {};
  }

  Status read_vocabulary(const std::string& path) {
    ITIF_ASSIGN(const json vocabulary, json_file::read_json_file(path));
    for (const auto& [piece, id] : vocabulary.items()) {
      if (!id.is_number_integer() || id < 0 || id.get<uint64_t>() >= kMaxPieces)
        return fail(Code::kCorrupt, fmt::format("{}: '{}' must be an id below {}, found {}", path,
                                                piece, kMaxPieces, json_file::shown(id)));
      const auto number = id.get<int32_t>();
      ids_.emplace(piece, number);
      piece_of_[number] = piece;
      vocab_size_ = std::max(vocab_size_, static_cast<uint32_t>(number) + 1);
    }
    for (const auto& [token, id] : {std::pair{&settings_.eos, &eos_},
                                    {&settings_.unknown, &unknown_},
                                    {&settings_.padding, &padding_}}) {
      const auto it = ids_.find(*token);
      if (it == ids_.end())
        return fail(Code::kCorrupt,
                    fmt::format("{}: the special token '{}' is missing", path, *token));
      *id = it->second;
    }
    return {};
  }

  int32_t id_of(const std::string& piece) const {
    const auto it = ids_.find(piece);
    return it == ids_.end() ? unknown_ : it->second;
  }

  // Appends the ids of special tokens and of the text between them.
  void append_ids(std::string_view text, std::vector<int32_t>& ids) const {
    const std::pair<std::string_view, int32_t> specials[] = {
        {settings_.eos, eos_}, {settings_.unknown, unknown_}, {settings_.padding, padding_}};
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const std::pair<std::string_view, int32_t>* found = nullptr;
      for (const auto& special : specials)
        if (text.substr(at).starts_with(special.first) &&
            (found == nullptr || special.first.size() > found->first.size()))
          found = &special;
      if (found == nullptr) {
        ++at;
        continue;
      }
      append_text(text.substr(begin, at - begin), ids);
      ids.push_back(found->second);
      begin = at += found->first.size();
    }
    append_text(text.substr(begin), ids);
  }

  void append_text(std::string_view text, std::vector<int32_t>& ids) const {
    if (text.empty()) return;
    std::string rest;
    for (size_t at = 0; at < text.size();) {
      const size_t newline = std::min(text.find('\n', at), text.size() - 1);
      const std::string_view line = text.substr(at, newline - at + 1);
      const auto [begin, end] = language_code(line);
      if (begin == std::string_view::npos) {
        rest += line;
      } else {
        if (at == 0 && begin == 0) ids.push_back(id_of(std::string(line.substr(0, end))));
        rest += line.substr(0, begin);
        rest += line.substr(end);
      }
      at = newline + 1;
    }
    std::vector<std::string> pieces;
    if (!source_.Encode(rest, &pieces).ok()) return;
    for (const std::string& piece : pieces) ids.push_back(id_of(piece));
  }

  Settings settings_;
  sentencepiece::SentencePieceProcessor source_, target_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<int32_t, std::string> piece_of_;
  uint32_t vocab_size_ = 0;
  int32_t eos_ = 0, unknown_ = 0, padding_ = 0;
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
