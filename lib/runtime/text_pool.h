// What the executor had to make itself (token ids of texts; token types that depend on ids; resized
// images), kept from submit(), or from the choice of its batch, to the end of it. Slots are reused, each made
// with room for the longest, so that in steady state nothing is allocated. One owner thread.
#pragma once

#include <cstdint>
#include <deque>
#include <new>
#include <vector>

#include "base/byte_piece.h"

namespace itif::runtime {

struct PreparedText {
  std::vector<int32_t> ids;          // empty: the request's ids stay where they arrived
  std::vector<uint8_t> token_types;  // empty: all 0
  std::vector<std::byte>
      pixels;              // of a resized image; empty: the request's stay where they arrived
  BytePiece pixels_piece;  // all of them
};

class TextPool {
 public:
  // Texts have at most max_tokens tokens, images image_bytes pixels' bytes.
  TextPool(uint32_t max_tokens, size_t image_bytes)
      : max_tokens_(max_tokens), image_bytes_(image_bytes) {}

  // A handle ≥ 1 to an empty PreparedText; 0: no memory.
  uint32_t acquire() noexcept {
    if (free_.empty()) return add();
    const uint32_t handle = free_.back();
    free_.pop_back();
    return handle;
  }
  void release(uint32_t handle) noexcept {
    PreparedText& entry = (*this)[handle];
    entry.ids.clear();
    entry.token_types.clear();
    entry.pixels.clear();
    free_.push_back(handle);
  }
  PreparedText& operator[](uint32_t handle) noexcept { return entries_[handle - 1]; }

 private:
  uint32_t add() noexcept {
    try {
      PreparedText entry;
      entry.ids.reserve(2 * size_t{max_tokens_});  // of pairs that are cut, see Tokenizer::encode
      entry.token_types.reserve(2 * size_t{max_tokens_});
      entry.pixels.reserve(image_bytes_);
      free_.reserve(entries_.size() + 1);
      entries_.push_back(std::move(entry));
    } catch (const std::bad_alloc&) {
      return 0;
    }
    return static_cast<uint32_t>(entries_.size());
  }

  const uint32_t max_tokens_;
  const size_t image_bytes_;
  std::deque<PreparedText> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace itif::runtime
