// Reassembles one response from pieces in any order.
//
// Invariants: all received pieces have the same total, fragment size, kind, token and version of
// the model, so they are of one run. The bitmap has one bit per piece, set if it was received.
// num_missing_ is the number of clear bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "client/buffer_pool.h"
#include "wire/datagram.h"

namespace itif::client {

class Reassembly {
 public:
  enum class Added : uint8_t { kPiece, kWhole, kDuplicate, kEarlierRun, kNoMemory };

  bool started() const noexcept { return buffer_.data != nullptr; }
  uint32_t total_bytes() const noexcept { return total_bytes_; }
  uint32_t fragment_bytes() const noexcept { return fragment_bytes_; }

  // A piece of another geometry, kind, token or version of the model is of another run of the
  // request. It restarts the reassembly if it `is_newest`: the server ran the request again.
  // REQUIRES: wire::parse accepted the datagram, of type response.
  Added add(const wire::Datagram& datagram, bool is_newest, BufferPool& pool) noexcept;
  // Writes the missing ranges in ascending order, as many as fit; returns their number.
  size_t missing(std::span<wire::Range> out) const noexcept;
  // Returns the response. REQUIRES: add() returned kWhole.
  std::span<const std::byte> bytes() const noexcept { return {buffer_.data, total_bytes_}; }
  // Hands the memory to the caller, who releases it; resets to not started.
  BufferPool::Buffer take() noexcept;

 private:
  uint64_t* bitmap() const noexcept;

  BufferPool::Buffer buffer_;  // the response, then the bitmap, 8-byte aligned
  uint32_t total_bytes_ = 0;
  uint32_t fragment_bytes_ = 0;
  uint32_t num_pieces_ = 0;
  uint32_t num_missing_ = 0;
  uint64_t token_ = 0;
  wire::ResultKind result_kind_ = wire::ResultKind::kDefault;
  std::optional<uint16_t> model_version_;
};

}  // namespace itif::client
