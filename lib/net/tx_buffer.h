// The frames that a worker is about to send: on its queue, or through the worker that has one.
//
// Owned by one worker. push() takes over the mbuf, also on failure. flush() offers all frames to
// the device, or to the other worker, once; refused frames stay for the next flush. When the device
// has taken nothing for kMaxRefusalNs, the frames are freed and counted, so that a dead link does
// not hold mbufs for ever. Frames for another worker wait without a limit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "net/port.h"

namespace itif::net {

// Takes the frames of a worker that has no transmit queue.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Takes over a prefix of `mbufs` and returns its length.
  virtual uint16_t send(std::span<rte_mbuf* const> mbufs) noexcept = 0;
};

class TxBuffer {
 public:
  static constexpr size_t kCapacity = 128;
  // Longer than the process at the other end of a memif waits for a CPU that it shares.
  static constexpr uint64_t kMaxRefusalNs = 50'000'000;

  // `sink`: takes the frames instead of the queue.
  TxBuffer(const Port& port, uint16_t queue, FrameSink* sink = nullptr)
      : port_(&port), sink_(sink), queue_(queue) {}
  TxBuffer(const TxBuffer&) = delete;
  TxBuffer& operator=(const TxBuffer&) = delete;
  ~TxBuffer();

  // Returns the number of frames that can still be pushed.
  size_t room() const noexcept { return kCapacity - count_; }
  size_t pending() const noexcept { return count_; }
  // Returns false if full even after a flush; the mbuf is then freed and counted in dropped().
  bool push(rte_mbuf* mbuf) noexcept;
  // Returns the number of frames handed on. `now_ns` never decreases.
  size_t flush(uint64_t now_ns) noexcept;

  // Frames given to the device. A sink counts its frames itself, when they reach the device.
  uint64_t sent() const noexcept { return sent_; }
  uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  uint64_t dropped() const noexcept { return dropped_; }  // refused for too long, or full

 private:
  static constexpr uint64_t kNever = UINT64_MAX;
  size_t offer() noexcept;

  const Port* port_;
  FrameSink* sink_;
  uint16_t queue_;
  uint64_t refused_since_ns_ = kNever;  // the first of the flushes that the device refused
  size_t count_ = 0;
  uint64_t sent_ = 0;
  uint64_t dropped_ = 0;
  uint64_t sent_bytes_ = 0;
  std::array<rte_mbuf*, kCapacity> mbufs_;
  // Frame lengths, kept because the device may free a frame as soon as it accepts it.
  std::array<uint32_t, kCapacity> bytes_;
};

}  // namespace itif::net
