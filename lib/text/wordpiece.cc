// Cuts the normalised text into words, and words into pieces.
//
// This allocates nothing: characters stream from the normaliser into one word on the stack, and a
// word's pieces into the caller's vector. Only a tokenizer with normalised added tokens (rare)
// stores the normalised text.
#include "text/wordpiece.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/pair_truncation.h"

namespace itif::text {

// The sink of the normaliser: collects a word and writes its pieces.
class WordPieceTokenizer::WordCutter {
 public:
  // Appends at most `budget` ids to `ids`. Further ids are counted if `count_all`; otherwise the
  // first of them makes it full().
  WordCutter(const WordPieceTokenizer& owner, uint32_t budget, bool count_all,
             std::vector<int32_t>& ids)
      : owner_(owner), budget_(budget), count_all_(count_all), ids_(ids) {}

  bool full() const noexcept { return full_; }
  // All ids so far, appended or not.
  size_t count() const noexcept { return count_; }

  void put(uint32_t point, uint8_t bits) noexcept {
    if (bits & (kWhitespace | kPunctuation)) [[unlikely]] {
      end_word();
      if ((bits & kWhitespace) || full_) return;
      add(point);
      return end_word();
    }
    add(point);
  }
  // Same, for a character from plain_letter_.
  void put_letter(char letter) noexcept {
    if (num_characters_++ < owner_.max_word_characters_) word_[num_bytes_++] = letter;
  }

  void end_word() noexcept {
    if (num_characters_ == 0) return;
    cut();
    num_characters_ = 0;
    num_bytes_ = 0;
  }

  void put_id(int32_t id) noexcept {
    if (count_++ < budget_)
      ids_.push_back(id);
    else
      full_ = !count_all_;
  }

 private:
  void add(uint32_t point) noexcept {
    // A word that is too long becomes unknown; only its length matters.
    if (num_characters_++ < owner_.max_word_characters_)
      num_bytes_ += put_code_point(point, word_.data() + num_bytes_);
  }

  void cut() noexcept {
    if (num_characters_ > owner_.max_word_characters_) return put_id(owner_.unknown_id_);
    std::string_view rest(word_.data(), num_bytes_);
    uint32_t num_pieces = 0;
    bool begins_word = true;
    while (!rest.empty()) {
      const WordPieceVocabulary::Match match = owner_.vocabulary_.longest(rest, begins_word);
      if (match.id < 0) return put_id(owner_.unknown_id_);
      pieces_[num_pieces++] = match.id;
      rest.remove_prefix(match.bytes);
      begins_word = false;
    }
    for (uint32_t i = 0; i < num_pieces && !full_; ++i) put_id(pieces_[i]);
  }

  const WordPieceTokenizer& owner_;
  const uint32_t budget_;
  const bool count_all_;
  std::vector<int32_t>& ids_;
  size_t count_ = 0;
  bool full_ = false;
  uint32_t num_characters_ = 0;
  size_t num_bytes_ = 0;
  std::array<char, kMaxWordCharacters * kMaxUtf8Bytes> word_;
  std::array<int32_t, kMaxWordCharacters> pieces_;
};

namespace {

// A sink that keeps the normalised text.
struct TextSink {
  std::string text;
  void put(uint32_t point, uint8_t) {
    char bytes[kMaxUtf8Bytes];
    text.append(bytes, put_code_point(point, bytes));
  }
};

std::string normalize(std::string_view text, const NormalizerOptions& options) {
  TextSink sink;
  WordPieceNormalizer<TextSink> normalizer(options, CodePointClasses::get(), sink);
  for (const char* at = text.data(); at < text.data() + text.size();)
    normalizer.feed(next_code_point(at));
  normalizer.flush();
  return std::move(sink.text);
}

// Cuts the ids of a pair, which begin at `start`, to `room`. Returns how many ids the first text
// keeps.
size_t cut_pair(size_t first, size_t second, size_t room, size_t start, std::vector<int32_t>& ids) {
  const auto [keep_first, keep_second] = cut_longest_first(first, second, room);
  const auto at = [&](size_t index) { return ids.begin() + static_cast<ptrdiff_t>(index); };
  const size_t first_at = start + 1;
  const size_t second_at = first_at + std::min(first, room) + 1;
  ids.erase(at(second_at + keep_second), at(second_at + std::min(second, room)));
  ids.erase(at(first_at + keep_first), at(first_at + std::min(first, room)));
  return keep_first;
}

}  // namespace

Status WordPieceTokenizer::TokenFinder::build(const std::vector<AddedToken>& added, bool normalized,
                                              const NormalizerOptions& normalizer) {
  WordPieceVocabulary::Tokens patterns;
  for (const AddedToken& token : added) {
    if (token.normalized != normalized) continue;
    std::string pattern = normalized ? normalize(token.content, normalizer) : token.content;
    if (pattern.empty()) continue;
    first[static_cast<uint8_t>(pattern[0])] = true;
    patterns.emplace_back(std::move(pattern), token.id);
  }
  empty = patterns.empty();
  ITIF_ASSIGN(tokens, WordPieceVocabulary::build(patterns, ""));
  return {};
}

Result<std::unique_ptr<WordPieceTokenizer>> WordPieceTokenizer::create(
    const WordPieceConfig& config) {
  if (config.max_word_characters > kMaxWordCharacters)
    return fail(Code::kUnsupported,
                fmt::format("max_input_chars_per_word is {}; this build supports up to {}",
                            config.max_word_characters, kMaxWordCharacters));
  if (config.continuation_prefix.empty())
    return fail(Code::kUnsupported, "continuing_subword_prefix is empty; WordPiece needs one");
  std::unique_ptr<WordPieceTokenizer> made(new WordPieceTokenizer);
  ITIF_ASSIGN(made->vocabulary_,
              WordPieceVocabulary::build(config.tokens, config.continuation_prefix));
  made->normalizer_ = config.normalizer;
  made->max_word_characters_ = config.max_word_characters;
  made->max_tokens_ = config.max_tokens;
  made->pair_type_ = config.has_types ? 1 : 0;
  ITIF_TRY(made->find_special_tokens(config));
  ITIF_TRY(made->raw_tokens_.build(config.added_tokens, false, config.normalizer));
  ITIF_TRY(made->normalized_tokens_.build(config.added_tokens, true, config.normalizer));
  made->find_plain_letters();
  return made;
}

Status WordPieceTokenizer::find_special_tokens(const WordPieceConfig& config) {
  const auto find = [&](const std::string& name) {
    for (const AddedToken& token : config.added_tokens)
      if (token.content == name) return token.id;
    return vocabulary_.find(name);
  };
  unknown_id_ = find(config.unknown_token);
  classifier_id_ = find(config.classifier_token);
  separator_id_ = find(config.separator_token);
  const std::pair<int32_t, const std::string&> needed[] = {
      {unknown_id_, config.unknown_token},
      {classifier_id_, config.classifier_token},
      {separator_id_, config.separator_token}};
  for (const auto& [id, name] : needed)
    if (id < 0) return fail(Code::kCorrupt, fmt::format("the vocabulary has no token '{}'", name));
  int32_t largest = 0;
  for (const auto& [token, id] : config.tokens) {
    if (id < 0) return fail(Code::kCorrupt, fmt::format("token '{}' has the id {}", token, id));
    largest = std::max(largest, id);
  }
  for (const AddedToken& token : config.added_tokens) largest = std::max(largest, token.id);
  vocab_size_ = static_cast<uint32_t>(largest) + 1;
  return {};
}

void WordPieceTokenizer::find_plain_letters() {
  for (uint32_t point = 1; point < 0x80; ++point) {
    const uint8_t bits = classes_[point];
    if ((bits & ~kHasLowerCase) != 0 || raw_tokens_.first[point]) continue;
    const bool lowered = normalizer_.lower_case && (bits & kHasLowerCase);
    plain_letter_[point] =
        static_cast<char>(lowered ? static_cast<uint32_t>(lower_case(point).points[0]) : point);
  }
}

EncodeStatus WordPieceTokenizer::encode(std::string_view text, std::optional<std::string_view> pair,
                                        const EncodeOptions& options, std::vector<int32_t>& ids,
                                        std::vector<uint8_t>& token_types) const noexcept {
  if (!is_utf8(text) || (pair && !is_utf8(*pair))) return EncodeStatus::kMalformed;
  const uint32_t num_special = pair ? 3 : 2;
  if (options.max_tokens < num_special) return EncodeStatus::kTooLong;
  const uint32_t room = options.max_tokens - num_special;
  const size_t start = ids.size();

  const bool refuse = options.truncation == Truncation::kRefuse;

  ids.push_back(classifier_id_);
  WordCutter first(*this, room, pair && !refuse, ids);
  encode_part(text, first);
  size_t keep_first = std::min<size_t>(first.count(), room);
  bool too_long = first.count() > room;
  ids.push_back(separator_id_);
  if (pair && !(refuse && too_long)) {
    // Refusing needs one id too many; cutting the longer text needs both lengths.
    const uint32_t room_left = refuse ? room - static_cast<uint32_t>(keep_first) : room;
    WordCutter second(*this, room_left, !refuse, ids);
    encode_part(*pair, second);
    ids.push_back(separator_id_);
    too_long = first.count() + second.count() > room;
    if (too_long && !refuse) keep_first = cut_pair(first.count(), second.count(), room, start, ids);
  }
  if (too_long && refuse) {
    ids.resize(start);
    return EncodeStatus::kTooLong;
  }
  const size_t num_first = keep_first + 2;  // with [CLS] and [SEP]
  token_types.resize(token_types.size() + num_first, 0);
  token_types.resize(token_types.size() + (ids.size() - start - num_first), pair_type_);
  return EncodeStatus::kOk;
}

void WordPieceTokenizer::encode_part(std::string_view text, WordCutter& cutter) const noexcept {
  const char* const end = text.data() + text.size();
  if (normalized_tokens_.empty) return encode_stream(text.data(), end, cutter);
  encode_kept(text.data(), end, cutter);
}

void WordPieceTokenizer::encode_stream(const char* at, const char* end,
                                       WordCutter& cutter) const noexcept {
  WordPieceNormalizer<WordCutter> normalizer(normalizer_, classes_, cutter);
  while (at < end && !cutter.full()) {
    if (char letter = plain_letter_[static_cast<uint8_t>(*at)]) {
      normalizer.flush();
      do {
        cutter.put_letter(letter);
      } while (++at < end && (letter = plain_letter_[static_cast<uint8_t>(*at)]) != 0);
      continue;
    }
    if (const auto match = raw_tokens_.at(at, end); match.id >= 0) {
      normalizer.flush();
      cutter.end_word();
      cutter.put_id(match.id);
      at += match.bytes;
      continue;
    }
    normalizer.feed(next_code_point(at));
  }
  normalizer.flush();
  cutter.end_word();
}

// Normalises each text between raw tokens as a whole, then encodes it.
void WordPieceTokenizer::encode_kept(const char* at, const char* end,
                                     WordCutter& cutter) const noexcept {
  const char* piece = at;
  while (at < end && !cutter.full()) {
    const auto match = raw_tokens_.at(at, end);
    if (match.id < 0) {
      ++at;
      continue;
    }
    encode_normalized({piece, static_cast<size_t>(at - piece)}, cutter);
    cutter.put_id(match.id);
    piece = at += match.bytes;
  }
  encode_normalized({piece, static_cast<size_t>(end - piece)}, cutter);
}

void WordPieceTokenizer::encode_normalized(std::string_view text,
                                           WordCutter& cutter) const noexcept {
  const std::string kept = normalize(text, normalizer_);
  const char* const end = kept.data() + kept.size();
  for (const char* at = kept.data(); at < end && !cutter.full();) {
    if (const auto match = normalized_tokens_.at(at, end); match.id >= 0) {
      cutter.end_word();
      cutter.put_id(match.id);
      at += match.bytes;
      continue;
    }
    const uint32_t point = next_code_point(at);
    cutter.put(point, classes_[point]);
  }
  cutter.end_word();
}

}  // namespace itif::text
