// The two rings between an owner, the worker of a port's queue, and a member, a worker that has no
// queue and shares the owner's (spreader.h).
//
//   owner ── received frames ──► member
//   owner ◄── frames to send ─── member
//
// Each ring has one producer and one consumer, and owns the frames in it. Putting frames in never
// blocks: the ring takes as many as it has room for. The producer wakes the consumer if it sleeps.
#pragma once

#include <rte_ring.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "net/tx_buffer.h"
#include "pipeline/doorbell.h"
#include "pipeline/request_ring.h"

namespace itif::pipeline {

class SpreadLane final : public net::FrameSink {
 public:
  struct Options {
    uint16_t owner = 0;  // worker ids; the member's is unique in the process
    uint16_t member = 0;
    uint32_t rx_frames = 1024;  // room of the rings
    uint32_t tx_frames = 1024;
  };
  // Errors: kResourceExhausted.
  static Result<std::unique_ptr<SpreadLane>> create(const Options& options);
  ~SpreadLane() override;  // frees the frames that are left

  uint16_t owner() const noexcept { return owner_; }
  // The bells that wake the workers. REQUIRES: both are set before the first frame.
  void set_owner_bell(Doorbell& bell) noexcept { owner_bell_ = &bell; }
  void set_member_bell(Doorbell& bell) noexcept { member_bell_ = &bell; }

  // The owner's thread. give() takes over a prefix of `mbufs` and returns its length.
  void set_owner_ignores(bool ignores) noexcept {
    owner_ignores_.store(ignores, std::memory_order_release);
  }
  size_t give(std::span<rte_mbuf* const> mbufs) noexcept;
  size_t take_to_send(std::span<rte_mbuf*> out) noexcept { return pop(*to_send_, out); }
  bool has_to_send() const noexcept { return rte_ring_empty(to_send_.get()) == 0; }
  // Returns true if the member's thread has ended: it sends no more.
  bool has_ended() const noexcept { return ended_.load(std::memory_order_acquire); }

  // The member's thread.
  size_t take(std::span<rte_mbuf*> out) noexcept { return pop(*received_, out); }
  uint16_t send(std::span<rte_mbuf* const> mbufs) noexcept override;
  // Returns true if the owner ignores new requests: it has passed on the frames that waited before.
  // Read it before take().
  bool owner_ignores() const noexcept { return owner_ignores_.load(std::memory_order_acquire); }
  bool has_received() const noexcept { return rte_ring_empty(received_.get()) == 0; }
  void set_ended(bool ended) noexcept { ended_.store(ended, std::memory_order_release); }

 private:
  SpreadLane() = default;
  static size_t pop(rte_ring& ring, std::span<rte_mbuf*> out) noexcept {
    return rte_ring_sc_dequeue_burst(&ring, reinterpret_cast<void**>(out.data()),
                                     static_cast<unsigned>(out.size()), nullptr);
  }

  std::unique_ptr<rte_ring, RingFree> received_, to_send_;
  Doorbell* owner_bell_ = nullptr;
  Doorbell* member_bell_ = nullptr;
  uint16_t owner_ = 0;
  std::atomic<bool> ended_{true};
  std::atomic<bool> owner_ignores_{false};
};

}  // namespace itif::pipeline
