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
// Source: Goyal, Vin and Cheng, "Start-time fair queueing", SIGCOMM 1996, with a credit for streams
// that were idle.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"

namespace itif::device {

class TurnTaker;

// The streams of one set of CPUs. Any thread.
class Turns {
 public:
  // Allocates nothing while at most kMaxStreams wait.
  explicit Turns(const Clock& clock) : clock_(clock) { waiting_.reserve(kMaxStreams); }

 private:
  friend class TurnTaker;
  static constexpr size_t kMaxStreams = 64;

  void give(TurnTaker* next) noexcept;       // nullptr: nobody
  TurnTaker* next_waiting() const noexcept;  // with the least virtual time; nullptr: nobody waits

  const Clock& clock_;
  std::mutex mutex_;
  std::vector<TurnTaker*> waiting_;  // guarded by mutex_, as are the next two
  TurnTaker* holder_ = nullptr;
  double virtual_ns_ = 0;                 // the largest of any stream
  std::atomic<uint32_t> num_waiting_{0};  // written with mutex_ held
  // The stream that computed last: tells whether a stream is alone.
  std::atomic<const TurnTaker*> last_{nullptr};
  std::atomic<uint64_t> changed_ns_{0};  // when last_ changed
};

// One stream's turns. Its thread calls all but set_share() and waited_ns().
class TurnTaker {
 public:
  static constexpr uint64_t kPartNs = 500'000;
  static constexpr uint64_t kCreditNs = 1'000'000'000;  // of virtual time
  static constexpr uint64_t kCompanyNs = 100'000'000;   // see has_company()
  static constexpr double kDefaultShare = 100;

  // `share`: relative to those of the other streams, as a percentage of the CPUs' time. 0:
  // kDefaultShare.
  TurnTaker(std::shared_ptr<Turns> turns, double share);
  ~TurnTaker() { end(); }
  TurnTaker(const TurnTaker&) = delete;
  TurnTaker& operator=(const TurnTaker&) = delete;

  void set_share(double share) noexcept;  // any thread
  // Returns how long this stream has waited for its turn so far. Any thread.
  uint64_t waited_ns() const noexcept { return waited_ns_.load(std::memory_order_relaxed); }

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
  // Returns true if another stream waits, or has computed within the last kCompanyNs.
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

  void account() noexcept;  // REQUIRES: Turns::mutex_ is held, and this stream has the turn
  // `from_ns`: the time from which the stream waits.
  void wait(std::unique_lock<std::mutex>& lock, uint64_t from_ns) noexcept;

  const std::shared_ptr<Turns> turns_;
  std::atomic<double> share_;  // as a fraction
  std::atomic<uint64_t> waited_ns_{0};
  std::condition_variable given_;
  double virtual_ns_ = 0;  // guarded by Turns::mutex_
  uint64_t since_ns_ = 0;  // guarded, too: the time up to here is accounted
  uint64_t part_ns_ = 0;   // start of the part that runs
  bool holds_ = false;     // this stream has the turn
};

}  // namespace itif::device
