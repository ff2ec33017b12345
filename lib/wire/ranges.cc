#include "wire/ranges.h"

#include <cstring>

namespace itif::wire {
namespace {

// REQUIRES: `previous_end` is the end of the previous range, or 0 for the first.
bool follows(const Range& range, uint64_t previous_end, bool first, uint32_t total_bytes) noexcept {
  const uint64_t end = static_cast<uint64_t>(range.offset) + range.bytes;
  if (range.bytes == 0 || end > total_bytes) return false;
  if (range.offset % 4 != 0 || (end % 4 != 0 && end != total_bytes)) return false;
  return first || range.offset >= previous_end;
}

}  // namespace

size_t parse_ranges(std::span<const std::byte> payload, uint32_t total_bytes,
                    std::array<Range, kMaxRanges>& out) noexcept {
  const size_t count = payload.size() / sizeof(Range);
  if (count == 0 || count > kMaxRanges || payload.size() % sizeof(Range) != 0) return 0;
  std::memcpy(out.data(), payload.data(), payload.size());
  uint64_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!follows(out[i], end, i == 0, total_bytes)) return 0;
    end = static_cast<uint64_t>(out[i].offset) + out[i].bytes;
  }
  return count;
}

size_t build_ranges(std::span<const Range> ranges, uint32_t total_bytes,
                    std::span<std::byte> out) noexcept {
  const size_t bytes = ranges.size() * sizeof(Range);
  if (ranges.empty() || ranges.size() > kMaxRanges || out.size() < bytes) return 0;
  uint64_t end = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!follows(ranges[i], end, i == 0, total_bytes)) return 0;
    end = static_cast<uint64_t>(ranges[i].offset) + ranges[i].bytes;
  }
  std::memcpy(out.data(), ranges.data(), bytes);
  return bytes;
}

}  // namespace itif::wire
