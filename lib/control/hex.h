// Keys as people copy them: lower-case hex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace itif::control {

std::string to_hex(std::span<const std::byte> bytes);
// False unless `text` is exactly two hex digits for each byte of `out`.
bool from_hex(std::string_view text, std::span<std::byte> out);

}  // namespace itif::control
