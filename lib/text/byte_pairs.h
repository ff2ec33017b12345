// Byte pair encoding: splits a word into bytes, then merges the pair of neighbours with the lowest
// rank until no merge applies. Immutable once built and shared by threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace itif::text {

class BytePairs {
 public:
  // Ids by raw bytes, not by their printable stand-ins.
  using Tokens = std::unordered_map<std::string, int32_t>;
  using Merges = std::vector<std::pair<std::string, std::string>>;  // by rank

  // Errors: kCorrupt: a byte without a token, or a merge whose parts or result are not tokens.
  static Result<BytePairs> build(const Tokens& tokens, const Merges& merges);

  // Buffers of encode(), reused for each word.
  struct Scratch {
    struct Symbol {
      int32_t id = 0;
      int32_t previous = 0, next = 0;  // -1: none
    };
    struct Candidate {
      uint32_t rank = 0;
      int32_t at = 0;  // index of the left symbol
      int32_t left = 0, right = 0;
      bool operator<(const Candidate& other) const {  // the greatest is merged first
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };
  // Appends a word's ids, in O(n log n) of its n bytes. May throw std::bad_alloc.
  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    uint32_t rank = 0;
    int32_t id = 0;
  };
  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  void consider(int32_t at, Scratch& scratch) const;

  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace itif::text
