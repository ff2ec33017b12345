// The payload of a resend datagram: the byte ranges of a message that its sender is missing.
//
//   payload = 1 … 64 × { u32 offset, u32 bytes }     ascending, not overlapping, within
//                                                    total_bytes; both ends multiples of 4,
//                                                    except the end of the message
//
// The receiver retransmits every piece that a range touches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/header.h"

namespace itif::wire {

struct Range {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};
static_assert(sizeof(Range) == 8);

// Parses `payload` and checks the ranges against total_bytes. Returns their number; 0 if they are
// malformed.
size_t parse_ranges(std::span<const std::byte> payload, uint32_t total_bytes,
                    std::array<Range, kMaxRanges>& out) noexcept;

// Writes `ranges` as a resend's payload. Returns the bytes written; 0 if `out` is too small or
// parse_ranges() would reject the ranges.
size_t build_ranges(std::span<const Range> ranges, uint32_t total_bytes,
                    std::span<std::byte> out) noexcept;

}  // namespace itif::wire
