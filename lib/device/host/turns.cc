#include "device/host/turns.h"

#include <sched.h>

#include <algorithm>
#include <limits>

namespace itif::device {
namespace {

constexpr double kNewestShare = 0.2;  // weight of the newest part in the time per unit

double fraction(double share) {
  return (share == 0 ? TurnTaker::kDefaultShare : share) / 100;
}

}  // namespace

void Turns::give(TurnTaker* next) noexcept {
  holder_ = next;
  if (next == nullptr) return;
  next->since_ns_ = next->looked_ns_ = clock_.now_ns();
  std::erase(waiting_, next);
  num_waiting_.store(static_cast<uint32_t>(waiting_.size()), std::memory_order_relaxed);
  next->given_.notify_one();
}

TurnTaker* Turns::next_waiting(bool is_background) const noexcept {
  TurnTaker* least = nullptr;
  for (TurnTaker* const waiting : waiting_)
    if (waiting->is_background_ == is_background &&
        (least == nullptr || waiting->virtual_ns() < least->virtual_ns()))
      least = waiting;
  return least;
}

TurnTaker* Turns::next_waiting() const noexcept {
  TurnTaker* const foreground = next_waiting(false);
  return foreground == nullptr ? next_waiting(true) : foreground;
}

TurnTaker* Turns::starved() const noexcept {
  TurnTaker* const next = next_waiting(true);
  return next != nullptr && clock_.now_ns() - next->waiting_from_ns_ >= TurnTaker::kStarvedNs
             ? next
             : nullptr;
}

bool Turns::is_another_awaited(const TurnTaker& one) const noexcept {
  return std::ranges::any_of(takers_, [&](const TurnTaker* taker) {
    return taker != &one && taker->is_awaited_ &&
           std::ranges::find(waiting_, taker) == waiting_.end() && taker->is_awaited_();
  });
}

TurnTaker::TurnTaker(std::shared_ptr<Turns> turns, double share, std::function<bool()> is_awaited)
    : turns_(std::move(turns)), is_awaited_(std::move(is_awaited)), share_(fraction(share)) {
  const std::lock_guard lock(turns_->mutex_);
  turns_->takers_.push_back(this);
}

TurnTaker::~TurnTaker() {
  end();
  const std::lock_guard lock(turns_->mutex_);
  std::erase(turns_->takers_, this);
}

void TurnTaker::set_share(double share) noexcept {
  share_.store(fraction(share), std::memory_order_relaxed);
}

void TurnTaker::set_background(bool is_background) noexcept {
  end();
  const std::lock_guard lock(turns_->mutex_);
  is_background_ = is_background;
}

void TurnTaker::account() noexcept {
  const uint64_t now_ns = turns_->clock_.now_ns();
  const uint64_t ns = now_ns - since_ns_;
  virtual_ns() += static_cast<double>(ns) / share_.load(std::memory_order_relaxed);
  double& largest = turns_->virtual_ns_[is_background_];
  largest = std::max(largest, virtual_ns());
  if (!is_background_)
    turns_->foreground_ns_.store(foreground_ns() + ns, std::memory_order_relaxed);
  since_ns_ = now_ns;
}

TurnTaker* TurnTaker::successor() const noexcept {
  if (is_background_) {
    TurnTaker* const foreground = turns_->next_waiting(false);
    if (foreground != nullptr) return foreground;
  } else if (TurnTaker* const starved = turns_->starved()) {
    return starved;
  }
  TurnTaker* const next = turns_->next_waiting(is_background_);
  const bool is_behind =
      next != nullptr && next->virtual_ns() + static_cast<double>(kPartNs) < virtual_ns();
  return is_behind ? next : nullptr;
}

void TurnTaker::wait(std::unique_lock<std::mutex>& lock, uint64_t from_ns) noexcept {
  waiting_from_ns_ = from_ns;
  turns_->waiting_.push_back(this);
  turns_->num_waiting_.store(static_cast<uint32_t>(turns_->waiting_.size()),
                             std::memory_order_relaxed);
  given_.wait(lock, [this] { return turns_->holder_ == this; });
  const uint64_t until_ns = since_ns_;  // give() has set it
  waited_ns_.store(waited_ns() + (until_ns - std::min(until_ns, from_ns)),
                   std::memory_order_relaxed);
}

void TurnTaker::begin() noexcept {
  if (holds_) return;
  {
    std::unique_lock lock(turns_->mutex_);
    if (turns_->holder_ != nullptr) turns_->holder_->account();
    virtual_ns() = std::max(virtual_ns(),
                            turns_->virtual_ns_[is_background_] - static_cast<double>(kCreditNs));
    if (turns_->holder_ == nullptr)
      turns_->give(this);
    else
      wait(lock, turns_->clock_.now_ns());
  }
  holds_ = true;
  if (turns_->last_.exchange(this, std::memory_order_relaxed) != this)
    turns_->changed_ns_.store(turns_->clock_.now_ns(), std::memory_order_relaxed);
}

void TurnTaker::pass() noexcept {
  if (!pass_to_successor() && !(let_others_wake() && pass_to_successor())) return;
  turns_->last_.store(this, std::memory_order_relaxed);
  turns_->changed_ns_.store(turns_->clock_.now_ns(), std::memory_order_relaxed);
}

bool TurnTaker::pass_to_successor() noexcept {
  if (!is_wanted()) return false;
  std::unique_lock lock(turns_->mutex_);
  account();
  TurnTaker* const next = successor();
  if (next == nullptr) return false;
  const uint64_t from_ns = since_ns_;  // account() has set it
  turns_->give(next);
  wait(lock, from_ns);
  return true;
}

bool TurnTaker::let_others_wake() noexcept {
  const uint64_t now_ns = turns_->clock_.now_ns();
  if (now_ns - looked_ns_ < kPartNs) return false;
  looked_ns_ = now_ns;
  if (turns_->beside_loads() || !has_company()) {
    const std::lock_guard lock(turns_->mutex_);
    if (!turns_->is_another_awaited(*this)) return false;
  }
  (void)::sched_yield();
  return true;
}

void TurnTaker::end() noexcept {
  if (!holds_) return;
  holds_ = false;
  const std::lock_guard lock(turns_->mutex_);
  account();
  turns_->give(turns_->next_waiting());
}

bool TurnTaker::has_company() const noexcept {
  if (is_wanted()) return true;
  const uint64_t changed_ns = turns_->changed_ns_.load(std::memory_order_relaxed);
  return changed_ns != 0 && (is_background_ || turns_->clock_.now_ns() - changed_ns < kCompanyNs);
}

double TurnTaker::part_units(const Pace& pace) const noexcept {
  if (pace.ns_per_unit == 0 || !has_company()) return std::numeric_limits<double>::infinity();
  return static_cast<double>(kPartNs) / pace.ns_per_unit;
}

void TurnTaker::end_part(Pace& pace, double units) noexcept {
  const uint64_t now_ns = turns_->clock_.now_ns();
  const double newest = static_cast<double>(now_ns - part_ns_) / units;
  pace.ns_per_unit = pace.ns_per_unit == 0
                         ? newest
                         : kNewestShare * newest + (1 - kNewestShare) * pace.ns_per_unit;
  pass();
}

}  // namespace itif::device
