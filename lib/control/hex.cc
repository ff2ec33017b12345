#include "control/hex.h"

#include <sodium.h>

namespace itif::control {

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                 bytes.size());
  text.pop_back();
  return text;
}

bool from_hex(std::string_view text, std::span<std::byte> out) {
  if (text.size() != out.size() * 2) return false;
  size_t bytes = 0;
  const char* end = nullptr;
  return sodium_hex2bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(),
                        text.size(), nullptr, &bytes, &end) == 0 &&
         bytes == out.size() && end == text.data() + text.size();
}

}  // namespace itif::control
