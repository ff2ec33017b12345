#include "text/byte_bpe.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "json/json_file.h"
#include "text/byte_pairs.h"
#include "text/framed_tokenizer.h"
#include "text/tokenizer_class.h"
#include "text/unicode.h"
#include "text/wordpiece_files.h"

namespace itif::text {
namespace {

using nlohmann::json;

constexpr size_t kMaxMergesBytes = 16u << 20;
constexpr int32_t kMaxId = (1 << 24) - 1;

struct Files {
  BytePairs::Tokens tokens;
  BytePairs::Merges merges;
  bool adds_prefix_space = false;
  // The frame as tokenizer.json names it; empty: not named. Its ids there; -1: none.
  std::string first, last;
  int32_t first_id = -1, last_id = -1;
};

// The files write printable bytes as themselves, the others as code points from 256 on, in order.
std::unordered_map<uint32_t, char> bytes_of_code_points() {
  std::unordered_map<uint32_t, char> bytes;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
    bytes[printable ? byte : next++] = static_cast<char>(byte);
  }
  return bytes;
}

// Converts a token to its bytes. Returns false if a character stands for no byte, as in some
// special tokens.
bool to_bytes(std::string_view token, std::string& bytes) {
  static const auto kBytes = bytes_of_code_points();
  bytes.clear();
  if (!is_utf8(token)) return false;
  for (const char* at = token.data(); at < token.data() + token.size();) {
    const auto it = kBytes.find(next_code_point(at));
    if (it == kBytes.end()) return false;
    bytes += it->second;
  }
  return true;
}

Status add_tokens(const json& vocabulary, const std::string& origin, Files& files,
                  std::unordered_map<std::string, int32_t>& written) {
  if (!vocabulary.is_object())
    return fail(Code::kCorrupt, fmt::format("{}: the vocabulary must be an object", origin));
  std::string bytes;
  for (const auto& [token, value] : vocabulary.items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kMaxId)
      return fail(Code::kCorrupt,
                  fmt::format("{}: token {} must have an id from 0 to {}, found {}", origin,
                              json_file::shown(json(token)), kMaxId, json_file::shown(value)));
    written[token] = value.get<int32_t>();
    if (to_bytes(token, bytes)) files.tokens[bytes] = value.get<int32_t>();
  }
  return {};
}

Status add_merge(std::string_view left, std::string_view right, const std::string& origin,
                 Files& files) {
  auto& merge = files.merges.emplace_back();
  if (left.empty() || right.empty() || !to_bytes(left, merge.first) ||
      !to_bytes(right, merge.second))
    return fail(Code::kCorrupt,
                fmt::format("{}: merge {} must be two tokens", origin, files.merges.size()));
  return {};
}

Status add_merge_line(std::string_view line, const std::string& origin, Files& files) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
    return fail(Code::kCorrupt,
                fmt::format("{}: merge {} must be two tokens, found {}", origin,
                            files.merges.size() + 1, json_file::shown(json(line.substr(0, 40)))));
  return add_merge(line.substr(0, space), line.substr(space + 1), origin, files);
}

Status read_merges(const std::string& path, Files& files) {
  ITIF_ASSIGN(const std::string text, json_file::read_text_file(path, kMaxMergesBytes));
  std::string_view rest = text;
  for (bool first = true; !rest.empty(); first = false) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (first && line.starts_with("#version"))) continue;
    if (!is_utf8(line)) return fail(Code::kCorrupt, fmt::format("{}: not UTF-8", path));
    ITIF_TRY(add_merge_line(line, path, files));
  }
  return {};
}

// Settings of tokenizer.json's steps that change the tokens, each with its neutral value. null is
// neutral, too. transformers 4 follows them; version 5 replaces RoBERTa's steps.
Status refuse_other_settings(const json& document, const std::string& origin) {
  const struct {
    const char *step, *key;
    json neutral;
  } settings[] = {{"pre_tokenizer", "use_regex", true},
                  {"model", "dropout", 0.0},
                  {"model", "continuing_subword_prefix", ""},
                  {"model", "end_of_word_suffix", ""},
                  {"model", "ignore_merges", false}};
  for (const auto& [step, key, neutral] : settings) {
    const auto it = document[step].find(key);
    if (it == document[step].end() || it->is_null() || *it == neutral) continue;
    return fail(Code::kUnsupported,
                fmt::format("{}: '{}.{}' is not implemented: it must be {}, found {}", origin, step,
                            key, neutral.dump(), json_file::shown(*it)));
  }
  return {};
}

Status read_frame(const json& processor, const std::string& origin, Files& files) {
  for (const auto& [key, token, id] :
       {std::tuple{"cls", &files.first, &files.first_id}, {"sep", &files.last, &files.last_id}}) {
    const auto it = processor.find(key);
    if (it == processor.end()) continue;
    if (!it->is_array() || it->empty() || !(*it)[0].is_string())
      return fail(Code::kCorrupt, fmt::format("{}: post_processor.{} must be [token, id], found {}",
                                              origin, key, json_file::shown(*it)));
    *token = (*it)[0].get<std::string>();
    const bool has_id = it->size() == 2 && (*it)[1].is_number_unsigned();
    *id = has_id && (*it)[1].get<uint64_t>() <= kMaxId ? (*it)[1].get<int32_t>() : -1;
  }
  return {};
}

// transformers' own classes for RoBERTa set add_prefix_space from tokenizer_config.json, by default
// false. Other classes follow tokenizer.json.
Result<bool> prefix_space(const json& document, const std::string& origin,
                          const TokenizerSettings& settings) {
  ITIF_ASSIGN(const bool written, json_file::get_set_bool_or(document["pre_tokenizer"],
                                                             "add_prefix_space", true, origin));
  const std::string& name = settings.class_name;
  if (name.empty() || is_roberta_class(name)) return settings.adds_prefix_space.value_or(false);
  if (settings.adds_prefix_space.value_or(written) != written)
    return fail(Code::kUnsupported,
                fmt::format("{}: 'pre_tokenizer.add_prefix_space' is {}, but tokenizer_config.json "
                            "says otherwise: versions of transformers differ on which counts",
                            origin, written));
  return written;
}

// Reads a tokenizer.json. Only byte-level BPE as in RoBERTa is accepted.
Status read_tokenizer_json(const json& document, const std::string& origin,
                           const TokenizerSettings& settings, Files& files,
                           std::unordered_map<std::string, int32_t>& written) {
  const auto type_of = [&](const char* step) -> std::string {
    const auto it = document.find(step);
    if (it == document.end() || !it->is_object()) return "nothing";
    return it->contains("type") ? json_file::shown((*it)["type"]) : "without a type";
  };
  for (const auto& [step, expected] : {std::pair{"normalizer", "nothing"},
                                       {"pre_tokenizer", "\"ByteLevel\""},
                                       {"post_processor", "\"RobertaProcessing\""}})
    if (const std::string found = type_of(step); found != expected)
      return fail(Code::kUnsupported,
                  fmt::format("{}: {} is {}; this build runs {}", origin, step, found, expected));
  const auto it = document.find("model");
  if (it == document.end() || !it->is_object() || !it->contains("vocab") ||
      !it->contains("merges") || !(*it)["merges"].is_array())
    return fail(Code::kCorrupt, fmt::format("{}: model must have vocab and merges", origin));
  const json& model = *it;
  ITIF_TRY(refuse_other_settings(document, origin));
  ITIF_TRY(read_frame(document["post_processor"], origin, files));
  ITIF_TRY(add_tokens(model["vocab"], origin, files, written));
  for (const json& merge : model["merges"]) {
    if (merge.is_string()) {
      ITIF_TRY(add_merge_line(merge.get_ref<const std::string&>(), origin, files));
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      ITIF_TRY(add_merge(merge[0].get_ref<const std::string&>(),
                         merge[1].get_ref<const std::string&>(), origin, files));
    } else {
      return fail(Code::kCorrupt, fmt::format("{}: a merge must be two tokens, found {}", origin,
                                              json_file::shown(merge)));
    }
  }
  ITIF_ASSIGN(files.adds_prefix_space, prefix_space(document, origin, settings));
  return {};
}

class ByteBpeTokenizer final : public FramedTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> load(const std::string& directory) {
    std::unique_ptr<ByteBpeTokenizer> tokenizer(new ByteBpeTokenizer);
    ITIF_ASSIGN(const TokenizerSettings settings, read_tokenizer_settings(directory));
    ITIF_TRY(check_roberta_class(directory, settings.class_name));
    Files files;
    std::unordered_map<std::string, int32_t> written;
    std::error_code error;
    // As in transformers, tokenizer.json replaces the older files.
    if (!std::filesystem::exists(directory + "/tokenizer.json", error)) {
      const std::string path = directory + "/vocab.json";
      ITIF_ASSIGN(const json vocabulary, json_file::read_json_file(path));
      ITIF_TRY(add_tokens(vocabulary, path, files, written));
      ITIF_TRY(read_merges(directory + "/merges.txt", files));
      files.adds_prefix_space = settings.adds_prefix_space.value_or(false);
    } else {
      const std::string path = directory + "/tokenizer.json";
      ITIF_ASSIGN(const json document, json_file::read_json_file(path));
      ITIF_TRY(read_tokenizer_json(document, path, settings, files, written));
    }
    auto pairs = BytePairs::build(files.tokens, files.merges);
    if (!pairs)
      return fail(pairs.error().code, fmt::format("{}: {}", directory, pairs.error().message));
    tokenizer->pairs_ = std::move(*pairs);
    tokenizer->adds_prefix_space_ = files.adds_prefix_space;
    tokenizer->max_tokens_ = settings.max_tokens;
    for (const auto& [token, id] : written)
      tokenizer->vocab_size_ = std::max(tokenizer->vocab_size_, static_cast<uint32_t>(id) + 1);
    const auto id_of = [&](const std::string& token) {
      const auto it = written.find(token);
      return it == written.end() ? -1 : it->second;
    };
    ITIF_TRY(check_added_ids(added_ids(settings), written.size(), id_of, directory));
    if (Status set = tokenizer->set_frame(settings, kDefaults, id_of,
                                          {.doubles_last = true, .normalized_last = true});
        !set)
      return fail(set.error().code, fmt::format("{}: {}", directory, set.error().message));
    const bool follows_json = follows_tokenizer_json(directory, settings.class_name);
    for (const auto& [token, written_id, id] :
         {std::tuple{&files.first, files.first_id, tokenizer->first_id()},
          {&files.last, files.last_id, tokenizer->separator_id()}}) {
      if (token->empty()) continue;
      if (id_of(*token) != id)
        return fail(Code::kUnsupported,
                    fmt::format("{}/tokenizer.json: post_processor frames texts with {}, but the "
                                "cls_token and the sep_token are others",
                                directory, json_file::shown(json(*token))));
      if (follows_json)
        ITIF_TRY(check_written_id(written_id, *token, id, directory + "/tokenizer.json"));
    }
    return tokenizer;
  }

 private:
  ByteBpeTokenizer() = default;

  static constexpr Default kDefaults[] = {
      {"bos_token", "<s>"},   {"eos_token", "</s>"}, {"unk_token", "<unk>"},  {"sep_token", "</s>"},
      {"pad_token", "<pad>"}, {"cls_token", "<s>"},  {"mask_token", "<mask>"}};

  void append_text(std::string_view text, size_t most, std::vector<int32_t>& ids) const override {
    BytePairs::Scratch scratch;
    std::string spaced;
    if (adds_prefix_space_ && !text.starts_with(' ')) {
      spaced = " ";
      spaced += text;
      text = spaced;
    }
    for (const char* at = text.data(); at < text.data() + text.size() && ids.size() < most;) {
      const char* end = word_end(at, text.data() + text.size());
      pairs_.encode({at, static_cast<size_t>(end - at)}, scratch, ids);
      at = end;
    }
  }

  enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther };
  static Kind kind_of(uint32_t point) {
    if (is_white_space(point)) return Kind::kSpace;
    if (is_letter(point)) return Kind::kLetter;
    return is_number(point) ? Kind::kNumber : Kind::kOther;
  }
  // Returns the end of the run of characters of `kind` at `at`; `last` is the last of them.
  static const char* run_end(const char* at, const char* end, Kind kind, const char*& last) {
    for (const char* next = at; at < end; at = next) {
      if (kind_of(next_code_point(next)) != kind) break;
      last = at;
    }
    return at;
  }

  // Returns the end of the word at `at`: a match of
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  static const char* word_end(const char* at, const char* end) {
    const std::string_view rest(at, static_cast<size_t>(end - at));
    for (const std::string_view suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
      if (rest.starts_with(suffix)) return at + suffix.size();
    const char* first = at + (*at == ' ' && rest.size() > 1 ? 1 : 0);
    const char* next = first;
    const char* last = first;
    if (const Kind kind = kind_of(next_code_point(next)); kind != Kind::kSpace)
      return run_end(first, end, kind, last);
    const char* const run = run_end(at, end, Kind::kSpace, last);
    // The last of several white spaces belongs to the next word.
    return run == end || last == at ? run : last;
  }

  BytePairs pairs_;
  bool adds_prefix_space_ = false;
};

}  // namespace

bool is_byte_bpe_directory(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::exists(directory + "/merges.txt", error)) return true;
  const auto document = json_file::read_json_file(directory + "/tokenizer.json");
  if (!document || !document->contains("model") || !(*document)["model"].is_object()) return false;
  const json& model = (*document)["model"];
  // Files of the first versions have no type; merges then identify BPE.
  if (model.contains("type") ? model["type"] != "BPE" : !model.contains("merges")) return false;
  // The reader of WordPiece files refuses other kinds of BPE by name.
  const auto words = document->find("pre_tokenizer");
  return words != document->end() && words->is_object() && words->contains("type") &&
         (*words)["type"] == "ByteLevel";
}

Result<std::unique_ptr<Tokenizer>> load_byte_bpe_tokenizer(const std::string& directory) {
  return ByteBpeTokenizer::load(directory);
}

}  // namespace itif::text
