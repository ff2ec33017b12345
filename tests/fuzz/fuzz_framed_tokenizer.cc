// A text payload, as RoBERTa's and ALBERT's tokenizers see it: any bytes, with and without a pair, cut or
// refused.
//
//   input = u8: which tokenizer, truncation, 3 bits of max_tokens; text, in which the first U+0000
//           separates a pair
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "model/tokenizer.h"

namespace {

using namespace itif::model;

std::unique_ptr<Tokenizer> open(const char* family) {
  auto loaded = load_tokenizer(std::string(ITIF_TEST_DATA) + "/" + family + "_tokenizer");
  CHECK(loaded.has_value());
  return std::move(*loaded);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::unique_ptr<Tokenizer> kTokenizers[] = {open("roberta"), open("albert")};
  if (size < 1) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::optional<std::string_view> pair;
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    pair = text.substr(zero + 1);
    text = text.substr(0, zero);
  }
  const Tokenizer& chosen = *kTokenizers[data[0] & 1];
  constexpr uint32_t kLimits[] = {UINT32_MAX, 2, 3, 4, 5, 8, 16, 64};
  const EncodeOptions options{
      .max_tokens = kLimits[data[0] >> 5],
      .truncation = data[0] & 2 ? Truncation::kLongestFirst : Truncation::kRefuse};
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
