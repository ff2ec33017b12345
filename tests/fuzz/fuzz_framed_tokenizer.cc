// A text payload for RoBERTa's and ALBERT's tokenizers: any bytes, with and without a pair,
// truncated or refused.
//
//   input = u8: which tokenizer, truncation, 3 bits of max_tokens; text, in which the first U+0000
//           separates a pair
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "encode_input.h"
#include "text/load_tokenizer.h"

namespace {

using namespace itif::text;

std::unique_ptr<Tokenizer> open(const char* family) {
  auto loaded = load_tokenizer(std::string(ITIF_TEST_DATA) + "/" + family + "_tokenizer");
  CHECK(loaded.has_value());
  return std::move(*loaded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<Tokenizer> kTokenizers[] = {open("roberta"), open("albert")};
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const EncodeOptions options{
      .max_tokens = itif::fuzz::kTokenLimits[data[0] >> 5],
      .truncation = data[0] & 2 ? Truncation::kLongestFirst : Truncation::kRefuse};
  itif::fuzz::encode_input(*kTokenizers[data[0] & 1], text, options);
  return 0;
}
