// A text payload, as the tokenizers see it: any bytes, with and without a pair, cut or refused.
//
//   input = u8: options (lower case, accents, Chinese, cleaning, truncation; 3 bits of max_tokens); text,
//           in which the first U+0000 separates a pair
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/wordpiece.h"

namespace {

using namespace itif::model;

const Tokenizer& tokenizer(unsigned options) {
  static std::unique_ptr<WordPieceTokenizer> made[16];
  auto& slot = made[options & 15];
  if (!slot) {
    WordPieceConfig config;
    int32_t id = 0;
    for (const char* token :
         {"[PAD]",    "[UNK]",  "[CLS]", "[SEP]",  "[MASK]", "the",     "a", "an",     "un",
          "##aff",    "##able", "able",  "##s",    "##a",    "##e",     "e", "x",      "##x",
          "##xx",     "1",      "##1",   ".",      ",",      "!",       "-", "\u4e2d", "\u00e9",
          "##\u00e9", "\u0301", "ss",    "\u0130", "i",      "##\u0307"})
      config.tokens.emplace_back(token, id++);
    config.normalizer = {.clean_text = (options & 1) == 0,
                         .tokenize_chinese_chars = (options & 2) == 0,
                         .strip_accents = (options & 4) == 0,
                         .lower_case = (options & 8) == 0};
    config.added_tokens = {{"[MASK]", 4, false}, {"[SEP]", 3, false}, {"AbLe\u0301", id++, true}};
    auto tokenizer = WordPieceTokenizer::create(config);
    CHECK(tokenizer.has_value());
    slot = std::move(*tokenizer);
  }
  return *slot;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::optional<std::string_view> pair;
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    pair = text.substr(zero + 1);
    text = text.substr(0, zero);
  }
  const Tokenizer& chosen = tokenizer(data[0]);
  EncodeOptions options;
  options.truncation = data[0] & 16 ? Truncation::kLongestFirst : Truncation::kRefuse;
  constexpr uint32_t kLimits[] = {UINT32_MAX, 2, 3, 4, 5, 8, 16, 64};
  options.max_tokens = kLimits[data[0] >> 5];

  std::vector<int32_t> ids{-7};
  std::vector<uint8_t> types{9};
  const EncodeStatus status = chosen.encode(text, pair, options, ids, types);
  CHECK(ids.size() == types.size() && ids[0] == -7 && types[0] == 9);
  if (status != EncodeStatus::kOk) {
    CHECK(ids.size() == 1);
    return 0;
  }
  CHECK(ids.size() - 1 <= options.max_tokens);
  for (size_t i = 1; i < ids.size(); ++i) {
    CHECK(ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < chosen.vocab_size());
    CHECK(types[i] <= (pair ? 1 : 0));
  }
  return 0;
}
