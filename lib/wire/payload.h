// Checks a request's payload by its length and first bytes; reads and writes a status's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/header.h"

namespace itif::wire {

// Precedes the pixels of kImageU8 and kImageF32, which are HWC, row-major, without padding.
struct ImagePrefix {
  uint16_t height = 0;
  uint16_t width = 0;
  uint16_t channels = 0;
  uint16_t reserved = 0;
};
static_assert(sizeof(ImagePrefix) == 8);

// Reads an image's prefix from `payload`, which may be only the message's first piece. Returns
// false if `payload` is shorter than a prefix, a size is 0, `reserved` is not 0, total_bytes is not
// exactly prefix plus pixels, or `kind` is not kImageU8 or kImageF32.
bool parse_image_prefix(PayloadKind kind, std::span<const std::byte> payload, uint32_t total_bytes,
                        ImagePrefix& out) noexcept;

// Returns the bytes of an image's whole payload; 0 if a size is 0 or the payload would exceed
// kMaxTotalBytes.
uint32_t image_payload_bytes(PayloadKind kind, const ImagePrefix& image) noexcept;

// Returns false if no payload of `kind` can have this length. Minimum: one whole token id, one byte
// of text, one pixel; kNone has no payload.
bool payload_size_valid(PayloadKind kind, uint32_t total_bytes) noexcept;

// Strict UTF-8: no overlong forms, surrogates or values past U+10FFFF. Source: RFC 3629.
bool utf8_valid(std::string_view text) noexcept;

// Returns a status's text, borrowed from `payload`; empty if it is not valid UTF-8 or longer than
// kMaxDetailBytes.
std::string_view status_detail(std::span<const std::byte> payload) noexcept;

// Returns the longest prefix of `detail` (valid UTF-8) that fits max_bytes and kMaxDetailBytes
// without cutting a character.
std::span<const std::byte> detail_payload(std::string_view detail, size_t max_bytes) noexcept;

}  // namespace itif::wire
