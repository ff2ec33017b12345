// Reads the bytes of a response by its result kind. Bounds are checked: a result is a peer's data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::client {

struct ClassResult {
  uint32_t index = 0;
  float probability = 0;
  std::string name;  // empty if the model names no labels
};

// ResultKind::kClasses, best first. Errors: kCorrupt, with the entry and byte where it breaks.
Result<std::vector<ClassResult>> decode_classes(std::span<const std::byte> result);
// ResultKind::kTokens. Errors: kCorrupt if the length is no multiple of 4.
Result<std::vector<uint32_t>> decode_tokens(std::span<const std::byte> result);
// ResultKind::kText. Errors: kCorrupt if it is not UTF-8.
Result<std::string> decode_text(std::span<const std::byte> result);
// Any of the f32 kinds, flat. Errors: kCorrupt if the length is no multiple of 4.
Result<std::vector<float>> decode_f32(std::span<const std::byte> result);

}  // namespace itif::client
