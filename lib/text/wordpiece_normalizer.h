// WordPiece's first step, text cleaning: removes controls, puts spaces around Chinese characters,
// strips accents, lower-cases letters, in the order of the reference (BertNormalizer).
//
// A stream from feed() to a sink. It stores only the marks that wait for their canonical order. A
// template, so that the calls per character are inlined.
#pragma once

#include <array>
#include <cstdint>

#include "text/unicode.h"

namespace itif::text {

struct NormalizerOptions {
  bool clean_text = true;
  bool tokenize_chinese_chars = true;
  bool strip_accents = true;
  bool lower_case = true;
};

// Sink: put(code_point, class) takes each character of the normalised text.
template <class Sink>
class WordPieceNormalizer {
 public:
  WordPieceNormalizer(const NormalizerOptions& options, const CodePointClasses& classes, Sink& sink)
      : options_(options), classes_(classes), sink_(sink) {}

  void feed(uint32_t point) noexcept {
    const uint8_t bits = classes_[point];
    if (options_.clean_text) {
      if (bits & kDropped) return;
      if (bits & kWhitespace) return space();
    }
    if (options_.tokenize_chinese_chars && (bits & kChinese)) {
      space();
      strip(point, bits);
      return space();
    }
    strip(point, bits);
  }

  // Passes waiting marks to the sink. Call it at the end of the text.
  void flush() noexcept {
    for (uint32_t i = 0; i < num_waiting_; ++i)
      lower(waiting_[i].point, classes_[waiting_[i].point]);
    num_waiting_ = 0;
  }

 private:
  // Limit of marks of one base that are not stripped. More of them are ordered in groups. Words
  // that the model knows are shorter, so none is affected.
  static constexpr uint32_t kMaxWaiting = 128;
  struct Mark {
    uint32_t point;
    uint8_t combining_class;
  };

  void space() noexcept {
    flush();
    sink_.put(' ', kWhitespace);
  }

  void strip(uint32_t point, uint8_t bits) noexcept {
    if (!options_.strip_accents) return lower(point, bits);
    if ((bits & kChangesInNfd) == 0) return place(point, bits, 0);
    const CodePoints parts = decompose(point);
    for (uint32_t i = 0; i < parts.size; ++i) {
      const auto part = static_cast<uint32_t>(parts.points[i]);
      place(part, classes_[part], combining_class(part));
    }
  }

  // Canonical order (Unicode, definition D109): marks wait until their run ends, sorted by
  // combining class; ties keep the order of arrival.
  void place(uint32_t point, uint8_t bits, uint8_t combining) noexcept {
    if (combining == 0) {
      flush();
      if ((bits & kNonspacingMark) == 0) lower(point, bits);
      return;
    }
    if (bits & kNonspacingMark) return;
    if (num_waiting_ == kMaxWaiting) flush();
    uint32_t at = num_waiting_++;
    for (; at > 0 && waiting_[at - 1].combining_class > combining; --at)
      waiting_[at] = waiting_[at - 1];
    waiting_[at] = {point, combining};
  }

  void lower(uint32_t point, uint8_t bits) noexcept {
    if (!options_.lower_case || (bits & kHasLowerCase) == 0) return sink_.put(point, bits);
    const CodePoints parts = lower_case(point);
    for (uint32_t i = 0; i < parts.size; ++i) {
      const auto part = static_cast<uint32_t>(parts.points[i]);
      sink_.put(part, classes_[part]);
    }
  }

  const NormalizerOptions options_;
  const CodePointClasses& classes_;
  Sink& sink_;
  uint32_t num_waiting_ = 0;
  std::array<Mark, kMaxWaiting> waiting_;
};

}  // namespace itif::text
