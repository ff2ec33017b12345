// The payload of a resend datagram: the byte ranges of a message that its sender has not seen.
//
//   payload = 1 … 64 × { u32 offset, u32 bytes }     ascending, not overlapping, within
//                                                    total_bytes; both ends multiples of 4,
//                                                    except the end of the message
//
// The receiver sends again every piece that a range touches.
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

// The ranges of `payload`, checked against total_bytes; 0 if anything about them is wrong.
size_t parse_ranges(std::span<const std::byte> payload, uint32_t total_bytes,
                    std::array<Range, kMaxRanges>& out) noexcept;

// Writes `ranges` as a resend's payload; 0 if `out` is too small, or if they are none, too many, or
// not what parse_ranges() would take.
size_t build_ranges(std::span<const Range> ranges, uint32_t total_bytes,
                    std::span<std::byte> out) noexcept;

}  // namespace itif::wire
