// The frames that a worker is about to send on its queue.
//
// Owned by one worker. push() takes over the mbuf, also on failure. flush() offers all frames to
// the device once; refused frames stay for the next flush. After kMaxRefusals consecutive flushes
// without progress the frames are freed and counted, so that a dead link does not hold mbufs for
// ever.
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

  // Returns the number of frames that can still be pushed.
  size_t room() const noexcept { return kCapacity - count_; }
  size_t pending() const noexcept { return count_; }
  // Returns false if full even after a flush; the mbuf is then freed and counted in dropped().
  bool push(rte_mbuf* mbuf) noexcept;
  // Returns the number of frames handed to the device.
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
  // Frame lengths, kept because the device may free a frame as soon as it accepts it.
  std::array<uint32_t, kCapacity> bytes_;
};

}  // namespace itif::net
