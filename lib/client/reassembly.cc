#include "client/reassembly.h"

#include <cstring>

#include "wire/geometry.h"

namespace itif::client {

uint64_t* Reassembly::bitmap() const noexcept {
  return reinterpret_cast<uint64_t*>(buffer_.data + ((size_t{total_bytes_} + 7) & ~size_t{7}));
}

Reassembly::Added Reassembly::add(const wire::Datagram& datagram, bool is_newest,
                                  BufferPool& pool) noexcept {
  const wire::Header& header = datagram.header;
  if (started() &&
      (header.total_bytes != total_bytes_ || header.fragment_bytes != fragment_bytes_ ||
       header.result_kind != result_kind_ || header.token != token_ ||
       wire::model_version(header) != model_version_)) {
    if (!is_newest) return Added::kEarlierRun;
    BufferPool::Buffer old = take();
    pool.release(old);
  }
  if (!started()) {
    const uint32_t pieces = wire::num_pieces(header.total_bytes, header.fragment_bytes);
    const size_t bitmap_bytes = (size_t{pieces} + 63) / 64 * 8;
    buffer_ = pool.acquire(((size_t{header.total_bytes} + 7) & ~size_t{7}) + bitmap_bytes);
    if (!started()) return Added::kNoMemory;
    total_bytes_ = header.total_bytes;
    fragment_bytes_ = header.fragment_bytes;
    result_kind_ = header.result_kind;
    token_ = header.token;
    model_version_ = wire::model_version(header);
    num_pieces_ = num_missing_ = pieces;
    std::memset(bitmap(), 0, bitmap_bytes);
  }
  const uint32_t piece = header.offset / fragment_bytes_;
  uint64_t& word = bitmap()[piece / 64];
  const uint64_t bit = uint64_t{1} << (piece % 64);
  if (word & bit) return Added::kDuplicate;
  word |= bit;
  if (!datagram.payload.empty())
    std::memcpy(buffer_.data + header.offset, datagram.payload.data(), datagram.payload.size());
  return --num_missing_ == 0 ? Added::kWhole : Added::kPiece;
}

size_t Reassembly::missing(std::span<wire::Range> out) const noexcept {
  if (!started()) return 0;
  size_t count = 0;
  for (uint32_t piece = 0; piece < num_pieces_;) {
    const auto here = [&](uint32_t p) { return (bitmap()[p / 64] >> (p % 64)) & 1; };
    if (here(piece)) {
      ++piece;
      continue;
    }
    if (count == out.size()) break;
    const uint32_t offset = piece * fragment_bytes_;
    while (piece < num_pieces_ && !here(piece)) ++piece;
    const uint64_t end = uint64_t{piece} * fragment_bytes_;
    const uint32_t limit = end < total_bytes_ ? static_cast<uint32_t>(end) : total_bytes_;
    out[count++] = {.offset = offset, .bytes = limit - offset};
  }
  return count;
}

BufferPool::Buffer Reassembly::take() noexcept {
  const BufferPool::Buffer taken = buffer_;
  *this = Reassembly{};
  return taken;
}

}  // namespace itif::client
