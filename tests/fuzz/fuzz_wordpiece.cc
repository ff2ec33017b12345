// A text payload for the WordPiece tokenizer: any bytes, with and without a pair, truncated or
// refused.
//
//   input = u8: options (lower case, accents, Chinese, cleaning, truncation; 3 bits of
//           max_tokens); text,
//           in which the first U+0000 separates a pair
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "encode_input.h"
#include "text/wordpiece.h"

namespace {

using namespace itif::text;

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
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const EncodeOptions options{
      .max_tokens = itif::fuzz::kTokenLimits[data[0] >> 5],
      .truncation = data[0] & 16 ? Truncation::kLongestFirst : Truncation::kRefuse};
  itif::fuzz::encode_input(tokenizer(data[0]), text, options);
  return 0;
}
