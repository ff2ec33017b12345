// The table of classes, and wrappers of utf8proc.
#include "text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <new>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "text/unicode_ranges.h"

namespace itif::text {
namespace {

constexpr uint32_t kNumCodePoints = 0x110000;
// Code points from here on have no case and no decomposition.
constexpr uint32_t kEndOfMappings = 0x30000;
constexpr uint32_t kCapitalIWithDot = 0x130;
// The reference uses older Unicode tables, which do not decompose this vowel sign.
constexpr uint32_t kDivesAkuruVowelSignO = 0x11938;

void mark(std::vector<uint8_t>& classes, std::span<const CodePointRange> ranges, uint8_t bit) {
  for (const CodePointRange& range : ranges)
    for (uint32_t point = range.first; point <= range.last; ++point) classes[point] |= bit;
}

bool changes_in_nfd(uint32_t point) {
  if (combining_class(point) != 0) return true;
  const CodePoints parts = decompose(point);
  return parts.size != 1 || parts.points[0] != static_cast<int32_t>(point);
}

void append_without_marks(std::string_view text, std::string& out) {
  if (text.empty()) return;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &mapped,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (bytes < 0) throw std::bad_alloc();  // all other errors mean invalid UTF-8
  const CodePointClasses& classes = CodePointClasses::get();
  const char* at = reinterpret_cast<const char*>(mapped);
  const char* const end = at + bytes;
  while (at < end) {
    const char* const begin = at;
    if ((classes[next_code_point(at)] & kMark) == 0) out.append(begin, at);
  }
}

}  // namespace

CodePointClasses::CodePointClasses() {
  std::vector<uint8_t> classes(kNumCodePoints);
  mark(classes, kDroppedRanges, kDropped);
  mark(classes, kWhitespaceRanges, kWhitespace);
  mark(classes, kPunctuationRanges, kPunctuation);
  mark(classes, kChineseRanges, kChinese);
  mark(classes, kNonspacingMarksRanges, kNonspacingMark);
  mark(classes, kMarksRanges, kMark);
  for (uint32_t point = 0; point < kEndOfMappings; ++point) {
    if (utf8proc_tolower(static_cast<int32_t>(point)) != static_cast<int32_t>(point))
      classes[point] |= kHasLowerCase;
    if (changes_in_nfd(point)) classes[point] |= kChangesInNfd;
  }
  std::map<Page, uint16_t> known;
  for (uint32_t first = 0; first < kNumCodePoints; first += 256) {
    Page page;
    std::copy_n(classes.begin() + first, 256, page.begin());
    const auto [entry, is_new] = known.try_emplace(page, static_cast<uint16_t>(pages_.size()));
    if (is_new) pages_.push_back(page);
    page_of_[first >> 8] = entry->second;
  }
}

const CodePointClasses& CodePointClasses::get() {
  static const CodePointClasses classes;
  return classes;
}

bool is_white_space(uint32_t code_point) noexcept {
  switch (code_point) {
    case 0x20:
    case 0x85:
    case 0xa0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202f:
    case 0x205f:
    case 0x3000: return true;
    default:
      return (code_point >= 0x09 && code_point <= 0x0d) ||
             (code_point >= 0x2000 && code_point <= 0x200a);
  }
}

bool is_letter(uint32_t code_point) noexcept {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_number(uint32_t code_point) noexcept {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_utf8(std::string_view text) noexcept {
  const auto* at = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = at + text.size();
  const auto continues = [](uint8_t byte) { return (byte & 0xc0) == 0x80; };
  while (at < end) {
    if (end - at >= 8) {  // most text: eight ASCII bytes at a time
      uint64_t eight;
      std::memcpy(&eight, at, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const uint8_t lead = *at;
    if (lead < 0x80) {
      at += 1;
    } else if (lead >= 0xc2 && lead < 0xe0) {
      if (end - at < 2 || !continues(at[1])) return false;
      at += 2;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      if (end - at < 3 || !continues(at[1]) || !continues(at[2])) return false;
      if (lead == 0xe0 && at[1] < 0xa0) return false;   // overlong
      if (lead == 0xed && at[1] >= 0xa0) return false;  // surrogate
      at += 3;
    } else if (lead >= 0xf0 && lead < 0xf5) {
      if (end - at < 4 || !continues(at[1]) || !continues(at[2]) || !continues(at[3])) return false;
      if (lead == 0xf0 && at[1] < 0x90) return false;   // overlong
      if (lead == 0xf4 && at[1] >= 0x90) return false;  // past 0x10FFFF
      at += 4;
    } else {
      return false;
    }
  }
  return true;
}

size_t put_code_point(uint32_t code_point, char* out) noexcept {
  const auto tail = [&](uint32_t shift) {
    return static_cast<char>(0x80 | (code_point >> shift & 0x3f));
  };
  if (code_point < 0x80) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = static_cast<char>(0xc0 | code_point >> 6);
    out[1] = tail(0);
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = static_cast<char>(0xe0 | code_point >> 12);
    out[1] = tail(6);
    out[2] = tail(0);
    return 3;
  }
  out[0] = static_cast<char>(0xf0 | code_point >> 18);
  out[1] = tail(12);
  out[2] = tail(6);
  out[3] = tail(0);
  return 4;
}

CodePoints decompose(uint32_t code_point) noexcept {
  CodePoints parts;
  const auto point = static_cast<int32_t>(code_point);
  int boundary_state = 0;
  const utf8proc_ssize_t size =
      code_point == kDivesAkuruVowelSignO
          ? 0
          : utf8proc_decompose_char(point, parts.points.data(),
                                    static_cast<utf8proc_ssize_t>(parts.points.size()),
                                    UTF8PROC_DECOMPOSE, &boundary_state);
  if (size < 1 || static_cast<size_t>(size) > parts.points.size()) {
    parts.points[0] = point;
    parts.size = 1;
  } else {
    parts.size = static_cast<uint32_t>(size);
  }
  return parts;
}

CodePoints lower_case(uint32_t code_point) noexcept {
  CodePoints parts;
  parts.size = 1;
  parts.points[0] = utf8proc_tolower(static_cast<int32_t>(code_point));
  if (code_point == kCapitalIWithDot) {  // the only full lower case of two code points
    parts.size = 2;
    parts.points[1] = 0x307;
  }
  return parts;
}

std::string without_marks(std::string_view text) {
  const auto is_undecomposed = [](uint32_t point) {
    return std::ranges::any_of(kUndecomposedRanges, [&](const CodePointRange& range) {
      return range.first <= point && point <= range.last;
    });
  };
  std::string out;
  const char* segment = text.data();
  for (const char* at = segment; at < text.data() + text.size();) {
    const char* const begin = at;
    if (static_cast<uint8_t>(*at) < 0x80 || !is_undecomposed(next_code_point(at))) {
      at += at == begin;
      continue;
    }
    append_without_marks({segment, begin}, out);
    out.append(begin, at);
    segment = at;
  }
  append_without_marks({segment, text.data() + text.size()}, out);
  return out;
}

uint8_t combining_class(uint32_t code_point) noexcept {
  return static_cast<uint8_t>(
      utf8proc_get_property(static_cast<int32_t>(code_point))->combining_class);
}

}  // namespace itif::text
