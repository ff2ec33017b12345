// The frames a worker is about to send on its queue, and what it does when the queue is full.
//
// Owned by one worker. push() takes the mbuf in any case. flush() offers everything to the device
// once; what the queue refuses stays for the next flush, and after kMaxRefusals flushes in a row
// that moved nothing the frames are freed and counted: a dead link must not hold mbufs for ever.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "net/port.h"

namespace itif::net {

class TxBuffer {
 public:
  static constexpr size_t kCapacity = 128;
  static constexpr uint32_t kMaxRefusals = 4096;

  TxBuffer(const Port& port, uint16_t queue) : port_(&port), queue_(queue) {}
  TxBuffer(const TxBuffer&) = delete;
  TxBuffer& operator=(const TxBuffer&) = delete;
  ~TxBuffer();

  // Frames that can still be pushed.
  size_t room() const noexcept { return kCapacity - count_; }
  size_t pending() const noexcept { return count_; }
  // False: full even after a flush; the mbuf has been freed and counted in dropped().
  bool push(rte_mbuf* mbuf) noexcept;
  // Returns the frames handed to the device.
  size_t flush() noexcept;

  uint64_t sent() const noexcept { return sent_; }
  uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  uint64_t dropped() const noexcept { return dropped_; }  // the port refused them for too long

 private:
  const Port* port_;
  uint16_t queue_;
  uint32_t refusals_ = 0;
  size_t count_ = 0;
  uint64_t sent_ = 0;
  uint64_t dropped_ = 0;
  uint64_t sent_bytes_ = 0;
  std::array<rte_mbuf*, kCapacity> mbufs_;
  std::array<uint32_t, kCapacity> bytes_;  // of each: the device may free what it takes at once
};

}  // namespace itif::net
