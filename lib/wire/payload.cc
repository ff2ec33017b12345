#include "wire/payload.h"

#include <algorithm>
#include <cstring>

namespace itif::wire {
namespace {

uint32_t pixel_bytes(PayloadKind kind) noexcept {
  switch (kind) {
    case PayloadKind::kImageU8: return 1;
    case PayloadKind::kImageF32: return 4;
    default: return 0;
  }
}

bool is_continuation(unsigned char byte) noexcept {
  return (byte & 0xc0) == 0x80;
}

// Returns the bytes of the character at text[i]; 0 if it is invalid.
size_t character_bytes(std::string_view text, size_t i) noexcept {
  const auto at = [&](size_t j) { return static_cast<unsigned char>(text[j]); };
  const unsigned char lead = at(i);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - i < bytes) return 0;
  for (size_t j = 1; j < bytes; ++j)
    if (!is_continuation(at(i + j))) return 0;
  const unsigned char second = at(i + 1);
  if (lead == 0xe0 && second < 0xa0) return 0;  // overlong
  if (lead == 0xed && second > 0x9f) return 0;  // surrogates
  if (lead == 0xf0 && second < 0x90) return 0;  // overlong
  if (lead == 0xf4 && second > 0x8f) return 0;  // past U+10FFFF
  return bytes;
}

}  // namespace

uint32_t image_payload_bytes(PayloadKind kind, const ImagePrefix& image) noexcept {
  // At most 2^16 · 2^16 · 2^16 · 4 + 8 < 2^51.
  const uint64_t pixels = static_cast<uint64_t>(image.height) * image.width * image.channels;
  const uint64_t bytes = pixels * pixel_bytes(kind);
  if (bytes == 0 || bytes + sizeof(ImagePrefix) > kMaxTotalBytes) return 0;
  return static_cast<uint32_t>(bytes + sizeof(ImagePrefix));
}

bool parse_image_prefix(PayloadKind kind, std::span<const std::byte> payload, uint32_t total_bytes,
                        ImagePrefix& out) noexcept {
  if (payload.size() < sizeof(ImagePrefix)) return false;
  std::memcpy(&out, payload.data(), sizeof out);
  const uint32_t expected = image_payload_bytes(kind, out);
  return out.reserved == 0 && expected != 0 && expected == total_bytes;
}

bool payload_size_valid(PayloadKind kind, uint32_t total_bytes) noexcept {
  if (total_bytes > kMaxTotalBytes) return false;
  switch (kind) {
    case PayloadKind::kNone: return total_bytes == 0;
    case PayloadKind::kTokensU16: return total_bytes != 0 && total_bytes % 2 == 0;
    case PayloadKind::kTokensU32: return total_bytes != 0 && total_bytes % 4 == 0;
    case PayloadKind::kText: return total_bytes != 0;
    case PayloadKind::kImageU8: return total_bytes > sizeof(ImagePrefix);
    case PayloadKind::kImageF32: return total_bytes > sizeof(ImagePrefix) && total_bytes % 4 == 0;
    case PayloadKind::kRaw: return true;
  }
  return false;
}

bool utf8_valid(std::string_view text) noexcept {
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = character_bytes(text, i);
    if (bytes == 0) return false;
    i += bytes;
  }
  return true;
}

std::string_view status_detail(std::span<const std::byte> payload) noexcept {
  const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
  return text.size() <= kMaxDetailBytes && utf8_valid(text) ? text : std::string_view{};
}

std::span<const std::byte> detail_payload(std::string_view detail, size_t max_bytes) noexcept {
  size_t bytes = std::min({detail.size(), max_bytes, static_cast<size_t>(kMaxDetailBytes)});
  if (bytes < detail.size())
    while (bytes > 0 && is_continuation(static_cast<unsigned char>(detail[bytes]))) --bytes;
  return {reinterpret_cast<const std::byte*>(detail.data()), bytes};
}

}  // namespace itif::wire
