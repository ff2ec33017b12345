// Encodes one input of the tokenizers' fuzz targets, a text in which the first U+0000 separates a
// pair, and checks the guarantees of every tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/tokenizer.h"

namespace itif::fuzz {

// The values of max_tokens that three bits of the input choose from.
inline constexpr uint32_t kTokenLimits[] = {UINT32_MAX, 2, 3, 4, 5, 8, 16, 64};

inline void encode_input(const text::Tokenizer& tokenizer, std::string_view text,
                         const text::EncodeOptions& options) {
  std::optional<std::string_view> pair;
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    pair = text.substr(zero + 1);
    text = text.substr(0, zero);
  }
  std::vector<int32_t> ids{-7};
  std::vector<uint8_t> types{9};
  const text::EncodeStatus status = tokenizer.encode(text, pair, options, ids, types);
  CHECK(ids.size() == types.size() && ids[0] == -7 && types[0] == 9);
  if (status != text::EncodeStatus::kOk) {
    CHECK(ids.size() == 1);
    return;
  }
  CHECK(ids.size() - 1 <= options.max_tokens);
  for (size_t i = 1; i < ids.size(); ++i) {
    CHECK(ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < tokenizer.vocab_size());
    CHECK(types[i] <= (pair ? 1 : 0));
  }
}

}  // namespace itif::fuzz
