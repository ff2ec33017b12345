// Holds input that the executor prepared: token ids of texts, token types that depend on ids,
// resized images. An entry lives from submit(), or from the choice of its batch, to the end of that
// batch. Entries are reused and have room for the longest input, so that steady state allocates
// nothing. One owner thread.
#pragma once

#include <cstdint>
#include <deque>
#include <new>
#include <vector>

#include "base/byte_piece.h"

namespace itif::runtime {

struct PreparedInput {
  std::vector<int32_t> ids;          // empty: the request's ids stay where they arrived
  std::vector<uint8_t> token_types;  // empty: all 0
  // A resized image; empty: the request's pixels stay where they arrived.
  std::vector<std::byte> pixels;
  BytePiece pixels_piece;  // all pixels
};

class InputPool {
 public:
  // Texts have at most max_tokens tokens, images at most image_bytes bytes of pixels.
  InputPool(uint32_t max_tokens, size_t image_bytes)
      : max_tokens_(max_tokens), image_bytes_(image_bytes) {}

  // Returns a handle ≥ 1 to an empty PreparedInput; 0: no memory.
  uint32_t acquire() noexcept {
    if (free_.empty()) return add();
    const uint32_t handle = free_.back();
    free_.pop_back();
    return handle;
  }
  void release(uint32_t handle) noexcept {
    PreparedInput& entry = (*this)[handle];
    entry.ids.clear();
    entry.token_types.clear();
    entry.pixels.clear();
    free_.push_back(handle);
  }
  PreparedInput& operator[](uint32_t handle) noexcept { return entries_[handle - 1]; }

 private:
  uint32_t add() noexcept {
    try {
      PreparedInput entry;
      // Truncated pairs need twice the tokens, see Tokenizer::encode.
      entry.ids.reserve(2 * size_t{max_tokens_});
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
  std::deque<PreparedInput> entries_;
  std::vector<uint32_t> free_;
};

}  // namespace itif::runtime
