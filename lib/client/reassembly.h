// Puts the pieces of one response together, whatever their order.
//
// Invariants: total, fragment and kind are those of every piece that is here; a bit per piece says
// that it is here; num_missing is the number of bits that are not set.
#pragma once

#include <cstdint>
#include <span>

#include "client/buffer_pool.h"
#include "wire/datagram.h"

namespace itif::client {

class Reassembly {
 public:
  enum class Added : uint8_t { kPiece, kWhole, kDuplicate, kNoMemory };

  bool started() const noexcept { return buffer_.data != nullptr; }
  uint32_t total_bytes() const noexcept { return total_bytes_; }
  uint32_t fragment_bytes() const noexcept { return fragment_bytes_; }

  // A piece of other geometry than those before it begins anew: the request was run again.
  // REQUIRES: wire::parse accepted the datagram, of type response.
  Added add(const wire::Datagram& datagram, BufferPool& pool) noexcept;
  // Ranges that are missing, ascending; returns how many were written.
  size_t missing(std::span<wire::Range> out) const noexcept;
  // The response. REQUIRES: add() said kWhole.
  std::span<const std::byte> bytes() const noexcept { return {buffer_.data, total_bytes_}; }
  // Hands the memory to the caller; back to not started.
  BufferPool::Buffer take() noexcept;

 private:
  uint64_t* bitmap() const noexcept;

  BufferPool::Buffer buffer_;  // the response, then the bitmap, 8-byte aligned
  uint32_t total_bytes_ = 0;
  uint32_t fragment_bytes_ = 0;
  uint32_t num_pieces_ = 0;
  uint32_t num_missing_ = 0;
  wire::ResultKind result_kind_ = wire::ResultKind::kDefault;
};

}  // namespace itif::client
