// Byte pair encoding: a word's bytes, of which the pair of neighbours that ranks first is merged until no
// pair is left that the merges have. Immutable once built and shared by threads.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"

namespace itif::model {

class BytePairs {
 public:
  using Tokens =
      std::unordered_map<std::string, int32_t>;  // raw bytes, not their printable stand-ins
  using Merges = std::vector<std::pair<std::string, std::string>>;  // by rank

  // Errors: kCorrupt: a byte without a token, a merge of or into something that is none.
  static Result<BytePairs> build(const Tokens& tokens, const Merges& merges);

  // Buffers of encode(), kept from word to word.
  struct Scratch {
    struct Symbol {
      int32_t id = 0;
      int32_t previous = 0, next = 0;  // -1: none
    };
    struct Candidate {
      uint32_t rank = 0;
      int32_t at = 0;  // the left symbol
      int32_t left = 0, right = 0;
      bool operator<(const Candidate& other) const {  // the first to merge is the greatest
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };
  // Appends a word's ids: n log n in its bytes. May throw std::bad_alloc.
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

}  // namespace itif::model
