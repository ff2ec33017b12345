// The order in which pieces of requests arrive: a window of open requests, each of which gets its
// next piece in turn. A complete request leaves the window to a new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"

namespace itif::bench {

struct ArrivalOrder {
  uint32_t num_pieces = 1;  // of each request
  uint32_t num_open = 1;    // requests that are incomplete at a time, on average; 1: one by one
  bool shuffled = false;    // pieces of a request in random order; else ascending
  bool repeats = false;     // after its last piece, the first request repeats it for ever
};

class Arrivals {
 public:
  struct Piece {
    uint64_t request;  // counts from 0
    uint32_t index;    // of the piece in the request
  };

  explicit Arrivals(const ArrivalOrder& order);

  // Pieces until the window is full and its requests are at different positions, so that further
  // pieces start and complete requests at a steady rate.
  size_t num_to_fill() const noexcept { return num_to_fill_; }
  Piece next();
  // Returns the next missing piece of an open request; nullopt if none is open. Starts none.
  std::optional<Piece> next_to_finish();

  uint64_t num_started() const noexcept { return num_started_; }
  uint64_t num_complete() const noexcept { return num_complete_; }

 private:
  struct Open {
    uint64_t request = 0;
    uint32_t num_sent = 0;
    bool is_open = false;
  };
  uint32_t head_start(size_t position) const noexcept;
  Piece take(Open& open);
  void shuffle();

  ArrivalOrder order_;
  Random random_{7};
  std::vector<Open> window_;
  std::vector<uint32_t> pieces_;  // a request's order of pieces
  size_t at_ = 0;                 // the next position of the window
  size_t num_to_fill_ = 0;
  uint64_t num_started_ = 0, num_complete_ = 0;
  bool is_full_ = false;
};

}  // namespace itif::bench
