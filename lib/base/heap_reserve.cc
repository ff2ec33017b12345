#include "base/heap_reserve.h"

#include <cstring>
#include <vector>

namespace itif {
namespace {

constexpr size_t kPieceBytes = 64 << 10;  // malloc gives larger ones mappings of their own

std::unique_ptr<std::byte[]> touched_piece() {
  auto piece = std::make_unique_for_overwrite<std::byte[]>(kPieceBytes);
  std::memset(piece.get(), 1, kPieceBytes);
  return piece;
}

}  // namespace

HeapReserve::HeapReserve(size_t bytes) {
  std::vector<std::unique_ptr<std::byte[]>> pieces;
  for (size_t done = 0; done < bytes; done += kPieceBytes) pieces.push_back(touched_piece());
  last_ = touched_piece();
}

}  // namespace itif
