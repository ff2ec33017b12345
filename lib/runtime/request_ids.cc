#include "runtime/request_ids.h"

namespace itif::runtime {

bool RequestIds::cover_tokens() const noexcept {
  if (prepared_) return prepared_->ids.size() == request_.num_tokens;
  uint64_t num_ids = 0;
  for (const request::Piece& piece : request_.pieces) {
    if (piece.bytes < id_bytes()) return false;
    num_ids += piece.bytes / id_bytes();
  }
  return num_ids == request_.num_tokens;
}

void RequestIds::append_to(std::vector<kernels::IdPiece>& pieces,
                           uint32_t first_row) const noexcept {
  if (prepared_) {
    pieces.push_back({.data = reinterpret_cast<const std::byte*>(prepared_->ids.data()),
                      .num_ids = static_cast<uint32_t>(prepared_->ids.size()),
                      .first_row = first_row,
                      .id_bytes = 4});
    return;
  }
  for (const request::Piece& piece : request_.pieces) {
    const uint32_t num_ids = piece.bytes / id_bytes();
    pieces.push_back({piece.data, num_ids, first_row, id_bytes()});
    first_row += num_ids;
  }
}

}  // namespace itif::runtime
