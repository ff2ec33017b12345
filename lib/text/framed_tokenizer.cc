#include "text/framed_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "json/json_file.h"
#include "text/pair_truncation.h"
#include "text/unicode.h"

namespace itif::text {
namespace {

using nlohmann::json;

// Length of `text` without the white space at its end.
size_t without_space_behind(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t at = end - 1;
    while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
    const char* point = text.data() + at;
    if (!is_white_space(next_code_point(point))) break;
    end = at;
  }
  return end;
}

// Length of the white space at the beginning of `text`.
size_t space_before(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    const char* next = at;
    if (!is_white_space(next_code_point(next))) break;
    at = next;
  }
  return static_cast<size_t>(at - text.data());
}

}  // namespace

Status FramedTokenizer::set_frame(const TokenizerSettings& settings,
                                  std::span<const Default> defaults,
                                  const std::function<int32_t(const std::string&)>& id_of,
                                  TokenFrame frame) {
  std::vector<SpecialToken> specials;
  frame.first = frame.last = -1;
  const auto is_named = [&](const std::string& content) {
    return std::ranges::any_of(
               settings.names,
               [&](const auto& named) { return named.second.content == content; }) ||
           std::ranges::find(settings.more, content, &SpecialToken::content) != settings.more.end();
  };
  // Finds a token's id, and its flags where it is also an added token. If a token is listed twice,
  // the first entry is used. added_tokens.json has no flags: named tokens match the text as it is
  // written.
  const auto resolve = [&](SpecialToken& token) {
    token.id = id_of(token.content);
    const auto added = std::ranges::find(settings.added, token.content, &SpecialToken::content);
    if (added == settings.added.end()) return;
    token.id = added->id;
    token.strips_left = added->strips_left;
    token.strips_right = added->strips_right;
    token.normalized = added->normalized && (added->has_flags || !is_named(token.content));
  };
  for (const auto& [key, content] : defaults) {
    const auto named = settings.names.find(key);
    SpecialToken token =
        named != settings.names.end() ? named->second : SpecialToken{.content = content, .id = -1};
    resolve(token);
    if (frame.first_key && std::string_view(key) == frame.first_key) frame.first = token.id;
    if (std::string_view(key) == frame.last_key) frame.last = token.id;
    const bool is_searched = named != settings.names.end() || settings.has_default_tokens;
    if (token.id >= 0 && is_searched) specials.push_back(std::move(token));
  }
  if ((frame.first_key && frame.first < 0) || frame.last < 0)
    return fail(Code::kCorrupt, frame.first_key
                                    ? fmt::format("the vocabulary lacks the {} or the {}",
                                                  frame.first_key, frame.last_key)
                                    : fmt::format("the vocabulary lacks the {}", frame.last_key));
  for (const auto& [key, named] : settings.names) {
    SpecialToken token = named;
    resolve(token);
    if (token.id >= 0) specials.push_back(std::move(token));
  }
  for (SpecialToken token : settings.more) {
    resolve(token);
    if (token.id < 0)
      return fail(Code::kUnsupported,
                  fmt::format("the vocabulary lacks the additional special token {}",
                              json_file::shown(json(token.content))));
    specials.push_back(std::move(token));
  }
  // As in transformers, decoded text leaves out named tokens only.
  for (SpecialToken token : settings.added) {
    token.is_special = false;
    specials.push_back(std::move(token));
  }
  frame_ = frame;
  return set_specials(std::move(specials));
}

Status FramedTokenizer::set_specials(std::vector<SpecialToken> specials) {
  WordPieceVocabulary::Tokens contents, normalized;
  const SpecialToken *stripping = nullptr, *spaced = nullptr;
  for (SpecialToken& special : specials) {
    if (specials_.contains(special.id)) continue;
    const bool is_last = frame_.normalized_last && special.normalized;
    Finder& finder = is_last ? normalized_finder_ : finder_;
    finder.first_byte[static_cast<uint8_t>(special.content[0])] = true;
    finder.empty = false;
    (is_last ? normalized : contents).emplace_back(special.content, special.id);
    vocab_size_ = std::max(vocab_size_, static_cast<uint32_t>(special.id) + 1);
    const SpecialToken& kept = specials_.emplace(special.id, std::move(special)).first->second;
    if (kept.strips_right) stripping = &kept;
    if (space_before(kept.content) > 0) spaced = &kept;
  }
  // The library then finds tokens in white space that it has removed.
  if (frame_.normalized_last && stripping && spaced)
    return fail(Code::kUnsupported,
                fmt::format("added token {} begins with white space, and added token {} removes "
                            "it ('rstrip'): one of both is supported",
                            json_file::shown(json(spaced->content)),
                            json_file::shown(json(stripping->content))));
  ITIF_ASSIGN(finder_.contents, WordPieceVocabulary::build(contents, ""));
  ITIF_ASSIGN(normalized_finder_.contents, WordPieceVocabulary::build(normalized, ""));
  return {};
}

bool FramedTokenizer::is_special(int32_t id) const {
  const auto it = specials_.find(id);
  return it != specials_.end() && it->second.is_special;
}

template <class Append>
void FramedTokenizer::split(std::string_view text, const Finder& finder, size_t most,
                            std::vector<int32_t>& ids, const Append& append) const {
  const auto flush = [&](size_t begin, size_t end) {
    if (begin < end) append(text.substr(begin, end - begin));
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && ids.size() < most;) {
    WordPieceVocabulary::Match match;
    if (finder.first_byte[static_cast<uint8_t>(text[at])])
      match = finder.contents.longest(text.substr(at), true);
    if (match.id < 0) {
      ++at;
      continue;
    }
    const SpecialToken& special = specials_.at(match.id);
    const std::string_view before = text.substr(begin, at - begin);
    flush(begin, begin + (special.strips_left ? without_space_behind(before) : before.size()));
    ids.push_back(match.id);
    at += match.bytes;
    if (special.strips_right) at += space_before(text.substr(at));
    begin = at;
  }
  if (ids.size() < most) flush(begin, text.size());
}

// Returns the ids of one text, complete only up to `most` ids.
std::vector<int32_t> FramedTokenizer::cut(std::string_view text, size_t most) const {
  std::vector<int32_t> ids;
  const auto append = [&](std::string_view rest) { append_text(rest, most, ids); };
  split(text, finder_, most, ids, [&](std::string_view rest) {
    if (normalized_finder_.empty) return append(rest);
    split(rest, normalized_finder_, most, ids, append);
  });
  return ids;
}

EncodeStatus FramedTokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                                     const EncodeOptions& options, std::vector<int32_t>& ids,
                                     std::vector<uint8_t>& token_types) const noexcept {
  if (!is_utf8(text) || (pair && !is_utf8(*pair))) return EncodeStatus::kMalformed;
  const size_t num_first = frame_.first >= 0 ? 1 : 0;
  const size_t num_special = num_first + 1u + (pair ? (frame_.doubles_last ? 2u : 1u) : 0u);
  if (options.max_tokens < num_special) return EncodeStatus::kTooLong;
  const size_t room = options.max_tokens - num_special;
  const bool refuses = options.truncation == Truncation::kRefuse;
  const size_t start = ids.size();
  try {
    // Refusing needs one id too many; cutting the longer text needs both lengths.
    const size_t most = !refuses && pair ? SIZE_MAX : room + 1;
    std::vector<int32_t> first = cut(text, most);
    std::vector<int32_t> second;
    if (pair && first.size() <= most) second = cut(*pair, most);
    if (first.size() + second.size() > room) {
      if (refuses) return EncodeStatus::kTooLong;
      const PairLengths keep = cut_longest_first(first.size(), second.size(), room);
      first.resize(keep.first);
      second.resize(keep.second);
    }
    if (num_first > 0) ids.push_back(frame_.first);
    ids.insert(ids.end(), first.begin(), first.end());
    ids.push_back(frame_.last);
    token_types.resize(token_types.size() + first.size() + num_first + 1, 0);
    if (!pair) return EncodeStatus::kOk;
    if (frame_.doubles_last) ids.push_back(frame_.last);
    ids.insert(ids.end(), second.begin(), second.end());
    ids.push_back(frame_.last);
    const size_t num_second = ids.size() - start - first.size() - num_first - 1;
    token_types.resize(token_types.size() + num_second, frame_.has_types ? 1 : 0);
    return EncodeStatus::kOk;
  } catch (const std::exception&) {  // no memory
    token_types.resize(token_types.size() - std::min(token_types.size(), ids.size() - start));
    ids.resize(start);
    return EncodeStatus::kTooLong;
  }
}

}  // namespace itif::text
