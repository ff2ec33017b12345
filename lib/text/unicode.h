// Characters as the reference tokenizer sees them: UTF-8 in and out, the class of a code point, its
// decomposition and its lower case. Pure functions over constant tables.
//
// Classes come from the reference's own tables (unicode_ranges.h), decompositions and case from
// utf8proc. tests/unit/text checks both together against the reference for every code point.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace itif::text {

// Bits of a code point's class. A plain letter or digit has none.
enum CodePointClass : uint8_t {
  kDropped = 1u << 0,
  kWhitespace = 1u << 1,
  kPunctuation = 1u << 2,
  kChinese = 1u << 3,
  kNonspacingMark = 1u << 4,
  kHasLowerCase = 1u << 5,
  kChangesInNfd = 1u << 6,  // decomposes, or may swap places with its neighbours
  kMark = 1u << 7,          // of categories Mn, Mc and Me
};

// Two-level table of 1.1 million code points; most of its pages are equal.
class CodePointClasses {
 public:
  // Returns the only table, built at first use (some milliseconds).
  static const CodePointClasses& get();
  // REQUIRES: code_point ≤ 0x10FFFF.
  uint8_t operator[](uint32_t code_point) const noexcept {
    return pages_[page_of_[code_point >> 8]][code_point & 0xff];
  }

 private:
  using Page = std::array<uint8_t, 256>;
  CodePointClasses();
  std::array<uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
};

// Unicode's property White_Space, as in \s and Rust's is_whitespace().
bool is_white_space(uint32_t code_point) noexcept;
// General categories L and N, as in \p{L} and \p{N}.
bool is_letter(uint32_t code_point) noexcept;
bool is_number(uint32_t code_point) noexcept;

// Returns true if `text` is UTF-8 by RFC 3629: no overlong form, surrogate or cut sequence.
bool is_utf8(std::string_view text) noexcept;

// Returns the code point at `at` and moves `at` past it. REQUIRES: valid UTF-8 at `at`.
inline uint32_t next_code_point(const char*& at) noexcept {
  const auto byte = [&](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(at[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return at += 1, lead;
  if (lead < 0xe0) {
    const uint32_t point = (lead & 0x1f) << 6 | (byte(1) & 0x3f);
    return at += 2, point;
  }
  if (lead < 0xf0) {
    const uint32_t point = (lead & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    return at += 3, point;
  }
  const uint32_t point =
      (lead & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
  return at += 4, point;
}

constexpr size_t kMaxUtf8Bytes = 4;  // of one code point
// Writes `code_point` to out[0, 4) and returns its length.
size_t put_code_point(uint32_t code_point, char* out) noexcept;

// A code point's full canonical decomposition or lower case.
struct CodePoints {
  std::array<int32_t, 8> points;  // Unicode's longest is 4
  uint32_t size = 0;
};
CodePoints decompose(uint32_t code_point) noexcept;
CodePoints lower_case(uint32_t code_point) noexcept;
// Compatibility decomposition (NFKD) without marks, both as the reference's older Unicode has them.
// REQUIRES: UTF-8. May throw std::bad_alloc.
std::string without_marks(std::string_view text);
// Canonical combining class: the order of marks after a base (Unicode, section 3.11). 0: starts a
// new sequence.
uint8_t combining_class(uint32_t code_point) noexcept;

}  // namespace itif::text
