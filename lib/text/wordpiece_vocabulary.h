// A WordPiece vocabulary as a trie over bytes: one walk finds the longest piece at a position.
//
// Two roots: pieces that begin a word, and pieces that continue one (stored without their prefix,
// "##"). Immutable once built. The edges are one open-addressing table, 8 bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace itif::text {

class WordPieceVocabulary {
 public:
  struct Match {
    int32_t id = -1;  // -1: no piece fits
    size_t bytes = 0;
  };

  // If a token occurs twice, the later id is used.
  using Tokens = std::vector<std::pair<std::string, int32_t>>;

  // If the prefix is empty, no piece continues a word. Errors: kCorrupt: more text than a
  // vocabulary can have (16 million trie nodes).
  static Result<WordPieceVocabulary> build(const Tokens& tokens,
                                           std::string_view continuation_prefix);

  // Returns the longest piece that `rest` starts with.
  Match longest(std::string_view rest, bool begins_word) const noexcept {
    Match match;
    uint32_t node = begins_word ? kWordRoot : kContinuationRoot;
    for (size_t i = 0; i < rest.size(); ++i) {
      node = child(node, static_cast<uint8_t>(rest[i]));
      if (node == kNone) break;
      if (ids_[node] >= 0) match = {ids_[node], i + 1};
    }
    return match;
  }
  // Returns the id of a whole token that begins words; -1: there is none.
  int32_t find(std::string_view token) const noexcept {
    const Match match = longest(token, true);
    return match.bytes == token.size() ? match.id : -1;
  }

 private:
  static constexpr uint32_t kWordRoot = 0;
  static constexpr uint32_t kContinuationRoot = 1;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kMaxNodes = 1u << 24;  // a key is a node and a byte in 32 bits

  struct Edge {
    uint32_t key = 0;
    uint32_t child = kNone;  // kNone: an empty slot
  };

  size_t home_of(uint32_t key) const noexcept {
    return static_cast<size_t>(key * 0x9e3779b97f4a7c15u >> shift_);
  }
  uint32_t child(uint32_t node, uint8_t byte) const noexcept {
    const uint32_t key = node << 8 | byte;
    for (size_t at = home_of(key);; at = (at + 1) & mask_) {
      const Edge& edge = edges_[at];
      if (edge.child == kNone || edge.key == key) return edge.child;
    }
  }
  uint32_t child_or_new(uint32_t node, uint8_t byte);

  std::vector<int32_t> ids_;  // by node; -1: no piece ends here
  std::vector<Edge> edges_;   // at least half empty
  size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace itif::text
