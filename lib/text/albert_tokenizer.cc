#include "text/albert_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "json/json_file.h"
#include "text/charsmap.h"
#include "text/framed_tokenizer.h"
#include "text/sentence_settings.h"
#include "text/sentencepiece_file.h"
#include "text/tokenizer_class.h"
#include "text/unicode.h"
#include "text/wordpiece_files.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr uint32_t kPastWhiteSpace = 0x3001;  // no white space from here on
constexpr std::string_view kAlbertClasses[] = {"AlbertTokenizer"};

// Replaces `` and '' with ".
std::string with_plain_quotes(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view two = text.substr(at, 2);
    const bool is_quote = two == "``" || two == "''";
    out += is_quote ? '"' : text[at];
    at += is_quote ? 1 : 0;
  }
  return out;
}

Result<json> read_json_or_null(const std::string& path) {
  Result<json> document = json_file::read_json_file(path);
  if (!document && document.error().code == Code::kNotFound) return json();
  return document;
}

// Added tokens that are not special are searched for in normalised text, which cut() does not do.
Status check_settings(const std::string& directory, const TokenizerSettings& settings) {
  const std::string path = directory + "/tokenizer_config.json";
  ITIF_ASSIGN(const json config, read_json_or_null(path));
  if (config.is_object()) ITIF_TRY(check_sentencepiece_arguments(config, path));
  // Either key, whatever its value, replaces the frame [CLS] A [SEP] unless tokenizer.json exists.
  std::error_code error;
  if (!std::filesystem::exists(directory + "/tokenizer.json", error))
    for (const char* key : {"add_bos_token", "add_eos_token"})
      if (config.is_object() && config.contains(key))
        return fail(Code::kUnsupported,
                    fmt::format("{}: '{}' must be absent without tokenizer.json, found {}", path,
                                key, json_file::shown(config[key])));
  if (!settings.adds_prefix_space.value_or(true))
    return fail(Code::kUnsupported,
                fmt::format("{}: 'add_prefix_space' is not implemented: it must be true, found "
                            "false",
                            path));
  for (const SpecialToken& token : settings.added)
    if (!token.is_special && token.normalized)
      return fail(Code::kUnsupported,
                  fmt::format("{}: added token {} is searched for in normalised text, which this "
                              "build does not run",
                              directory, json_file::shown(json(token.content))));
  return {};
}

// The steps of a tokenizer.json before its model.
struct Steps {
  bool lowers_case = false, decomposes = false, strips_accents = false;
};

// Flattens sequences of steps into `steps`. Returns the first step that ALBERT lacks, or null.
const json* read_steps(const json& step, Steps& steps) {
  const auto type = step.find("type");
  if (type == step.end()) return &step;
  for (const char* list : {"normalizers", "pretokenizers"}) {
    const auto parts = step.find(list);
    if (*type != "Sequence" || parts == step.end() || !parts->is_array()) continue;
    for (const json& part : *parts)
      if (const json* other = read_steps(part, steps)) return other;
    return nullptr;
  }
  if (*type == "Lowercase") steps.lowers_case = true;
  if (*type == "NFKD") steps.decomposes = true;
  if (*type == "StripAccents") steps.strips_accents = true;
  if (*type == "Replace") {
    // Quotes, and several spaces, which the model's own normaliser joins, too.
    const auto pattern = step.find("pattern"), content = step.find("content");
    if (pattern == step.end() || content == step.end()) return &step;
    const bool is_quote = *content == "\"" && (*pattern == json{{"String", "``"}} ||
                                               *pattern == json{{"String", "''"}});
    const bool is_space = *content == " " && *pattern == json{{"Regex", " {2,}"}};
    return is_quote || is_space ? nullptr : &step;
  }
  if (*type == "Metaspace") {
    const bool prepends = step.value("add_prefix_space", json(true)) == true &&
                          step.value("prepend_scheme", json("always")) == "always";
    return prepends && step.value("replacement", json("▁")) == "▁" ? nullptr : &step;
  }
  for (const char* known : {"Lowercase", "NFKD", "StripAccents", "Precompiled", "WhitespaceSplit"})
    if (*type == known) return nullptr;
  return &step;
}

class AlbertTokenizer final : public FramedTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& directory) {
    std::unique_ptr<AlbertTokenizer> tokenizer(new AlbertTokenizer);
    ITIF_ASSIGN(const TokenizerSettings settings, read_tokenizer_settings(directory));
    if (!follows_tokenizer_json(directory, settings.class_name))
      ITIF_TRY(check_tokenizer_class(directory, settings.class_name, kAlbertClasses));
    ITIF_TRY(check_sentence_case(directory, settings.lower_case));
    ITIF_TRY(check_settings(directory, settings));
    const std::string path = directory + "/spiece.model";
    ITIF_ASSIGN(const std::string model, read_sentencepiece_bytes(path));
    ITIF_TRY(parse_sentencepiece(model, path, tokenizer->pieces_));
    tokenizer->find_white_space(model);
    ITIF_TRY(tokenizer->read_tokenizer_json(directory + "/tokenizer.json", path, settings));
    tokenizer->lower_case_ = settings.lower_case;
    tokenizer->keeps_accents_ = settings.keeps_accents;
    tokenizer->max_tokens_ = settings.max_tokens;
    tokenizer->vocab_size_ = static_cast<uint32_t>(tokenizer->pieces_.GetPieceSize());
    const auto id_of = [&](const std::string& piece) { return tokenizer->id_of(piece); };
    ITIF_TRY(check_added_ids(added_ids(settings), tokenizer->vocab_size_, id_of, directory));
    if (Status set = tokenizer->set_frame(settings, kDefaults, id_of,
                                          {.has_types = settings.names_token_types});
        !set)
      return fail(set.error().code, fmt::format("{}: {}", path, set.error().message));
    return tokenizer;
  }

 private:
  AlbertTokenizer() = default;

  // -1: the model has no such piece.
  int32_t id_of(const std::string& piece) const {
    const int id = pieces_.PieceToId(piece);
    return id >= 0 && id < pieces_.GetPieceSize() && pieces_.IdToPiece(id) == piece ? id : -1;
  }

  // spiece.model and tokenizer_config.json are followed. Refuses a tokenizer.json that differs,
  // except in scores, which replace those of spiece.model. Published files have lower scores for
  // pieces of digits and a comma.
  Status read_tokenizer_json(const std::string& path, const std::string& model_path,
                             const TokenizerSettings& settings) {
    ITIF_ASSIGN(const json document, read_json_or_null(path));
    if (document.is_null()) return {};
    const auto refuse = [&](const std::string& what) {
      return fail(Code::kUnsupported, fmt::format("{}: {}", path, what));
    };
    Steps steps;
    for (const char* key : {"normalizer", "pre_tokenizer"}) {
      const auto step = document.find(key);
      if (step == document.end() || !step->is_object())
        return refuse(fmt::format("no {}; an ALBERT tokenizer has one", key));
      if (const json* other = read_steps(*step, steps))
        return refuse(
            fmt::format("{} has a step that ALBERT lacks: {}", key, json_file::shown(*other)));
    }
    if (steps.lowers_case != settings.lower_case)
      return refuse("normalizer and 'do_lower_case' of tokenizer_config.json disagree");
    if (steps.decomposes == settings.keeps_accents || steps.strips_accents != steps.decomposes)
      return refuse("normalizer and 'keep_accents' of tokenizer_config.json disagree");
    ITIF_ASSIGN(const std::vector<float> scores, scores_of(document, refuse));
    ITIF_ASSIGN(std::string bytes, read_sentencepiece_bytes(model_path));
    ITIF_TRY(replace_scores(bytes, scores, model_path));
    ITIF_TRY(parse_sentencepiece(bytes, model_path, pieces_));
    WordPieceConfig frame;
    ITIF_TRY(read_post_processor(document, path, frame));
    // AlbertTokenizer, too, uses the ids of this post_processor.
    for (const auto& [key, found, absent, written] :
         {std::tuple{"cls_token", &frame.classifier_token, "[CLS]", frame.written_classifier_id},
          {"sep_token", &frame.separator_token, "[SEP]", frame.written_separator_id}}) {
      const auto named = settings.names.find(key);
      if (*found != (named == settings.names.end() ? absent : named->second.content))
        return refuse(fmt::format("post_processor frames texts with {}, but the {} is another",
                                  json_file::shown(json(*found)), key));
      const auto added = std::ranges::find(settings.added, *found, &SpecialToken::content);
      const int32_t id = added == settings.added.end() ? id_of(*found) : added->id;
      ITIF_TRY(check_written_id(written, *found, id, path));
    }
    return {};
  }

  Result<std::vector<float>> scores_of(const json& document, const auto& refuse) const {
    const auto model = document.find("model");
    if (model == document.end() || !model->is_object() || !model->contains("vocab") ||
        !(*model)["vocab"].is_array())
      return refuse("model must be an object with an array 'vocab'");
    if (model->value("type", json("Unigram")) != "Unigram" ||
        model->value("byte_fallback", json(false)) != false)
      return refuse("model must be Unigram without byte_fallback");
    const json& pieces = (*model)["vocab"];
    if (pieces.size() != static_cast<size_t>(pieces_.GetPieceSize()))
      return refuse(fmt::format("model has {} pieces, spiece.model {}", pieces.size(),
                                pieces_.GetPieceSize()));
    std::vector<float> scores;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (!pieces[i].is_array() || pieces[i].size() != 2 ||
          pieces[i][0] != pieces_.IdToPiece(static_cast<int>(i)) || !pieces[i][1].is_number())
        return refuse(
            fmt::format("piece {} differs from spiece.model: {}", i, json_file::shown(pieces[i])));
      scores.push_back(pieces[i][1].get<float>());
    }
    return scores;
  }

  static constexpr Default kDefaults[] = {{"unk_token", "<unk>"},
                                          {"pad_token", "<pad>"},
                                          {"cls_token", "[CLS]"},
                                          {"sep_token", "[SEP]"},
                                          {"mask_token", "[MASK]"}};

  void append_text(std::string_view text, size_t, std::vector<int32_t>& ids) const override {
    std::string prepared = with_plain_quotes(text);
    if (!keeps_accents_) prepared = without_marks(prepared);
    prepared = spaced(prepared);
    std::vector<int> pieces;
    if (!pieces_.Encode(prepared, &pieces).ok()) return;
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  // The library normalises a text before it splits it at white space. A character that the model's
  // table replaces or removes (U+000B) is therefore left to the table.
  void find_white_space(std::string_view model) {
    for (uint32_t point = 0; point < kPastWhiteSpace; ++point)
      if (is_white_space(point) && !charsmap_replaces(model, point)) white_space_.push_back(point);
  }

  // Lower-cases the text unless case is kept, and turns white space into a space.
  std::string spaced(std::string_view text) const {
    std::string out;
    char bytes[kMaxUtf8Bytes];
    for (const char* at = text.data(); at < text.data() + text.size();) {
      uint32_t point = next_code_point(at);
      if (is_white_space(point) && std::ranges::find(white_space_, point) != white_space_.end())
        point = ' ';
      if (!lower_case_) {
        out.append(bytes, put_code_point(point, bytes));
        continue;
      }
      const CodePoints lower = lower_case(point);
      for (uint32_t i = 0; i < lower.size; ++i)
        out.append(bytes, put_code_point(static_cast<uint32_t>(lower.points[i]), bytes));
    }
    return out;
  }

  sentencepiece::SentencePieceProcessor pieces_;
  std::vector<uint32_t> white_space_;  // that the model's table keeps
  bool lower_case_ = true;
  bool keeps_accents_ = false;
};

}  // namespace

bool is_albert_directory(const std::string& directory) {
  std::error_code error;
  return std::filesystem::exists(directory + "/spiece.model", error);
}

Result<std::unique_ptr<Tokenizer>> load_albert_tokenizer(const std::string& directory) {
  return AlbertTokenizer::load(directory);
}

}  // namespace itif::text
