// Converts keys to and from hex text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace itif::control {

std::string to_hex(std::span<const std::byte> bytes);
// Returns false unless `text` has exactly two hex digits for each byte of `out`.
bool from_hex(std::string_view text, std::span<std::byte> out);

}  // namespace itif::control
