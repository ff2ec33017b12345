#include "ingest/arrivals.h"

#include <numeric>
#include <utility>

namespace itif::bench {
namespace {

// A position is without a request for one turn of num_pieces.
size_t window_size(const ArrivalOrder& order) {
  if (order.num_open == 1 || order.num_pieces == 1) return order.num_open;
  return size_t{order.num_open} * order.num_pieces / (order.num_pieces - 1);
}

}  // namespace

Arrivals::Arrivals(const ArrivalOrder& order)
    : order_(order), window_(window_size(order)), pieces_(order.num_pieces) {
  std::iota(pieces_.begin(), pieces_.end(), 0u);
  if (order_.repeats) std::swap(pieces_.front(), pieces_.back());
  for (size_t i = 0; i < window_.size(); ++i) num_to_fill_ += head_start(i);
}

// Only a window of one request is shuffled: all requests share the order.
void Arrivals::shuffle() {
  for (size_t i = pieces_.size(); i > 1; --i) std::swap(pieces_[i - 1], pieces_[random_.below(i)]);
}

// The starts of requests, and their ends, are spread evenly over the turns.
uint32_t Arrivals::head_start(size_t position) const noexcept {
  const size_t pieces = order_.num_pieces, positions = window_.size();
  return static_cast<uint32_t>(positions < pieces ? position * pieces / positions
                                                  : position % pieces);
}

Arrivals::Piece Arrivals::take(Open& open) {
  if (!open.is_open) {
    open = {.request = num_started_++, .num_sent = 0, .is_open = true};
    if (order_.shuffled) shuffle();
  }
  const Piece piece{open.request, pieces_[open.num_sent++]};
  if (open.num_sent == order_.num_pieces) {
    open.is_open = false;
    ++num_complete_;
  }
  return piece;
}

Arrivals::Piece Arrivals::next() {
  if (order_.repeats && num_started_ > 0) return {window_[0].request, pieces_[0]};
  while (!is_full_) {
    if (window_[at_].num_sent < head_start(at_)) return take(window_[at_]);
    is_full_ = ++at_ == window_.size();
    if (is_full_) at_ = 0;
  }
  Open& open = window_[at_];
  at_ = at_ + 1 == window_.size() ? 0 : at_ + 1;
  return take(open);
}

std::optional<Arrivals::Piece> Arrivals::next_to_finish() {
  for (size_t i = 0; i < window_.size(); ++i, at_ = at_ + 1 == window_.size() ? 0 : at_ + 1)
    if (window_[at_].is_open) return take(window_[at_]);
  return std::nullopt;
}

}  // namespace itif::bench
