// Lets the streams that use the same CPUs compute in turns, in proportion to their shares.
//
// Two streams that compute at once slow each other down without any control: both pools need all
// CPUs, and the larger batches get most of their time. Here one stream computes at a time, on all
// its CPUs. Between two launches, and between the parts of a long one, it passes the turn to a
// stream that is further behind its share. So a batch waits for a part of another batch, about
// kPartNs, and never for the whole.
//
// Each stream has a virtual time, which advances by computing time / share. The stream with the
// least virtual time has the next turn. A stream without work waits for no turn, so its time goes
// to the others. When it has work again, it starts kCreditNs behind the others at most. A stream
// that uses less than its share thus computes at once and at full speed, also a burst of requests,
// and a long pause does not let it keep the others out for longer than kCreditNs times its share.
// With a tenth of the credit, bursts of BERT-base's requests exceeded it and waited for turns.
//
// A stream may move to the background, to measure something while others serve. A stream of the
// foreground that waits always has the next turn before those of the background, which have virtual
// times of their own. A background stream that has waited for kStarvedNs has one turn of a part, so
// that it gets a twentieth of the time at least.
//
// Source: Goyal, Vin and Cheng, "Start-time fair queueing", SIGCOMM 1996, with a credit for streams
// that were idle.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"

namespace itif::device {

class TurnTaker;

// The streams of one set of CPUs. Any thread.
class Turns {
 public:
  // Allocates nothing while at most kMaxStreams wait. `beside_loads`, if given, is true while a
  // model is being loaded (Device::set_loading).
  explicit Turns(const Clock& clock, std::shared_ptr<const std::atomic<bool>> beside_loads = {})
      : clock_(clock), beside_loads_(std::move(beside_loads)) {
    waiting_.reserve(kMaxStreams);
  }

 private:
  friend class TurnTaker;
  static constexpr size_t kMaxStreams = 64;

  void give(TurnTaker* next) noexcept;  // nullptr: nobody
  // Returns the stream of the foreground, or of the background, that waits and has the least
  // virtual time; nullptr: none waits.
  TurnTaker* next_waiting(bool is_background) const noexcept;
  TurnTaker* next_waiting() const noexcept;  // of the foreground first
  // Returns true if work waits for the owner of a stream that waits for no turn. REQUIRES: mutex_
  // is held.
  bool is_another_awaited(const TurnTaker& one) const noexcept;
  // Returns the next stream of the background if it has waited for too long.
  TurnTaker* starved() const noexcept;

  bool beside_loads() const noexcept {
    return beside_loads_ != nullptr && beside_loads_->load(std::memory_order_relaxed);
  }

  const Clock& clock_;
  const std::shared_ptr<const std::atomic<bool>> beside_loads_;
  std::mutex mutex_;
  std::vector<const TurnTaker*> takers_;  // all; guarded by mutex_, as are the next three
  std::vector<TurnTaker*> waiting_;
  TurnTaker* holder_ = nullptr;
  // The largest of any stream, by is_background.
  std::array<double, 2> virtual_ns_{};
  std::atomic<uint64_t> foreground_ns_{0};  // written with mutex_ held
  std::atomic<uint32_t> num_waiting_{0};    // written with mutex_ held
  // The stream that computed last: tells whether a stream is alone.
  std::atomic<const TurnTaker*> last_{nullptr};
  std::atomic<uint64_t> changed_ns_{0};  // when last_ changed
};

// One stream's turns. Its thread calls all but set_share() and waited_ns().
class TurnTaker {
 public:
  // With 500 us, BERT-tiny's p99 beside an overloaded BERT-base was 2.6 instead of 2.0 ms; with 100
  // us its p50 rose by a third.
  static constexpr uint64_t kPartNs = 200'000;
  // The least of a part. With fewer, reading the weights takes longer than computing.
  static constexpr uint32_t kMinPartRows = 32;
  static constexpr uint64_t kCreditNs = 1'000'000'000;  // of virtual time
  static constexpr uint64_t kCompanyNs = 100'000'000;   // see has_company()
  static constexpr uint64_t kStarvedNs = 10'000'000;    // in the background
  static constexpr double kDefaultShare = 100;

  // `share`: relative to those of the other streams, as a percentage of the CPUs' time. 0:
  // kDefaultShare. `is_awaited`: StreamOptions::is_awaited.
  TurnTaker(std::shared_ptr<Turns> turns, double share, std::function<bool()> is_awaited = {});
  ~TurnTaker();
  TurnTaker(const TurnTaker&) = delete;
  TurnTaker& operator=(const TurnTaker&) = delete;

  void set_share(double share) noexcept;  // any thread
  // Returns how long this stream has waited for its turn so far. Any thread.
  uint64_t waited_ns() const noexcept { return waited_ns_.load(std::memory_order_relaxed); }
  // Returns how long the streams of the foreground have computed so far. Any thread.
  uint64_t foreground_ns() const noexcept {
    return turns_->foreground_ns_.load(std::memory_order_relaxed);
  }
  // Gives the turn up, and takes turns in the background from now on, or in the foreground.
  void set_background(bool is_background) noexcept;

  // Waits for the turn, unless this stream has it.
  void begin() noexcept;
  // Passes the turn to a stream that is more than kPartNs behind, and waits for the next one.
  // REQUIRES: begin().
  void pass() noexcept;
  // Gives the turn up: the stream has no more launches for now.
  void end() noexcept;

  // Returns true if another stream waits for the turn.
  bool is_wanted() const noexcept {
    return turns_->num_waiting_.load(std::memory_order_relaxed) > 0;
  }
  // Returns true if another stream waits, or has computed within the last kCompanyNs. A stream in
  // the background has company as soon as another stream has ever computed.
  bool has_company() const noexcept;
  // The time of one kind of operator per unit of its work, kept by the code that splits it.
  struct Pace {
    double ns_per_unit = 0;  // of recent parts; 0: unknown
  };
  // Returns how much work takes about kPartNs; infinity: any amount, since this stream is alone.
  double part_units(const Pace& pace) const noexcept;
  // Surround a part of an operator. end_part() passes the turn.
  void begin_part() noexcept { part_ns_ = turns_->clock_.now_ns(); }
  void end_part(Pace& pace, double units) noexcept;

 private:
  friend class Turns;

  double& virtual_ns() noexcept { return virtual_ns_[is_background_]; }
  double virtual_ns() const noexcept { return virtual_ns_[is_background_]; }
  void account() noexcept;  // REQUIRES: Turns::mutex_ is held, and this stream has the turn
  // Returns the stream that has the turn next, if this one is to pass it. REQUIRES: account().
  TurnTaker* successor() const noexcept;
  // Passes the turn and waits for the next one. Returns false at once if no other stream is behind.
  bool pass_to_successor() noexcept;
  // Yields the CPU if this stream has computed for kPartNs and has company: another stream's thread
  // may have been woken that does not wait for a turn yet, and Linux would let this one compute
  // until the next tick of its scheduler, up to 4 ms. Beside loads it yields only if work waits for
  // another stream's owner: a loader (SCHED_IDLE) might get the CPU for as long otherwise. Short
  // turns do not yield: a thread that yields is chosen later when it wakes again. Returns true if
  // it yielded.
  bool let_others_wake() noexcept;
  // Waits for the turn, as from `from_ns` on.
  void wait(std::unique_lock<std::mutex>& lock, uint64_t from_ns) noexcept;

  const std::shared_ptr<Turns> turns_;
  const std::function<bool()> is_awaited_;
  std::atomic<double> share_;  // as a fraction
  std::atomic<uint64_t> waited_ns_{0};
  std::condition_variable given_;
  // The next four are guarded by Turns::mutex_; only this stream's thread writes the second.
  std::array<double, 2> virtual_ns_{};  // by is_background_
  bool is_background_ = false;
  uint64_t since_ns_ = 0;         // the time up to here is accounted
  uint64_t waiting_from_ns_ = 0;  // of a stream that waits
  uint64_t part_ns_ = 0;          // start of the part that runs
  uint64_t looked_ns_ = 0;        // when let_others_wake() last looked, or it got the turn
  bool holds_ = false;            // this stream has the turn
};

}  // namespace itif::device
