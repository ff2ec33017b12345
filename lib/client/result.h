// Decodes the bytes of a response by its result kind. Checks bounds: a result is a peer's data.
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

// Decodes ResultKind::kClasses, best first. Errors: kCorrupt (names the malformed entry).
Result<std::vector<ClassResult>> decode_classes(std::span<const std::byte> result);
// Decodes ResultKind::kTokens. Errors: kCorrupt (the length is not a multiple of 4).
Result<std::vector<uint32_t>> decode_tokens(std::span<const std::byte> result);
// Decodes ResultKind::kText. Errors: kCorrupt (not UTF-8).
Result<std::string> decode_text(std::span<const std::byte> result);
// Decodes any of the f32 kinds, flat. Errors: kCorrupt (the length is not a multiple of 4).
Result<std::vector<float>> decode_f32(std::span<const std::byte> result);

}  // namespace itif::client
