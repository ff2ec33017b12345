// What stands inside a request's payload, as far as it can be judged from its first bytes and its
// length; and the text of a status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/header.h"

namespace itif::wire {

// In front of the pixels of kImageU8 and kImageF32; then HWC, row-major, no padding.
struct ImagePrefix {
  uint16_t height = 0;
  uint16_t width = 0;
  uint16_t channels = 0;
  uint16_t reserved = 0;
};
static_assert(sizeof(ImagePrefix) == 8);

// False if `payload` is shorter than a prefix, a size is 0, `reserved` is not, or total_bytes is
// not exactly the prefix and the pixels. `payload` may be only the message's first piece. REQUIRES:
// kind is kImageU8 or kImageF32 (else false).
bool parse_image_prefix(PayloadKind kind, std::span<const std::byte> payload, uint32_t total_bytes,
                        ImagePrefix& out) noexcept;

// Bytes of an image's whole payload; 0 if a size is 0 or the whole exceeds kMaxTotalBytes.
uint32_t image_payload_bytes(PayloadKind kind, const ImagePrefix& image) noexcept;

// False if no payload of `kind` can have this length: token ids come whole and at least one, text
// at least one byte, images at least one pixel, kNone none.
bool payload_size_valid(PayloadKind kind, uint32_t total_bytes) noexcept;

// Strict UTF-8: no overlong forms, surrogates or values past U+10FFFF. Source: RFC 3629.
bool utf8_valid(std::string_view text) noexcept;

// A status's text: empty if the payload is not valid UTF-8 or longer than kMaxDetailBytes.
// Borrowed.
std::string_view status_detail(std::span<const std::byte> payload) noexcept;

// The longest prefix of `detail` (valid UTF-8) that fits max_bytes without cutting a character.
std::span<const std::byte> detail_payload(std::string_view detail, size_t max_bytes) noexcept;

}  // namespace itif::wire
