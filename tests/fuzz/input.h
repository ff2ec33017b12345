// Reads numbers and bytes from the input of a fuzz target. Past the end, numbers are 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace itif::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(data, size) {}

  bool empty() const noexcept { return rest_.empty(); }
  uint8_t u8() noexcept { return static_cast<uint8_t>(number(1)); }
  uint16_t u16() noexcept { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() noexcept { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() noexcept { return number(8); }
  // Returns the next bytes: `count`, or all that are left.
  std::span<const std::byte> bytes(size_t count) noexcept {
    const auto taken = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return std::as_bytes(taken);
  }

 private:
  uint64_t number(size_t count) noexcept {  // little-endian
    uint64_t value = 0;
    const auto taken = bytes(count);
    for (size_t i = 0; i < taken.size(); ++i) value |= std::to_integer<uint64_t>(taken[i]) << 8 * i;
    return value;
  }

  std::span<const uint8_t> rest_;
};

}  // namespace itif::fuzz
