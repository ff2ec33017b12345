// Reads PNG and JPEG files as image_u8 payloads. libpng and libjpeg decode them, because they are
// hardened against malicious files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::ctl {

// Returns the payload of an image_u8 request: the prefix, then RGB, or grey if `channels` is 1.
// Drops transparency, as Pillow's convert("RGB") does. REQUIRES: channels is 1 or 3. Errors:
// kNotFound, kUnsupported (neither PNG nor JPEG), kCorrupt, kResourceExhausted (larger than a
// request can be).
Result<std::vector<std::byte>> read_picture(const std::string& path, uint32_t channels);

}  // namespace itif::ctl
