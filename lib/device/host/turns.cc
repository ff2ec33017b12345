#include "device/host/turns.h"

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
  next->since_ns_ = clock_.now_ns();
  std::erase(waiting_, next);
  num_waiting_.store(static_cast<uint32_t>(waiting_.size()), std::memory_order_relaxed);
  next->given_.notify_one();
}

TurnTaker* Turns::next_waiting() const noexcept {
  const auto least = std::ranges::min_element(waiting_, {}, &TurnTaker::virtual_ns_);
  return least == waiting_.end() ? nullptr : *least;
}

TurnTaker::TurnTaker(std::shared_ptr<Turns> turns, double share)
    : turns_(std::move(turns)), share_(fraction(share)) {}

void TurnTaker::set_share(double share) noexcept {
  share_.store(fraction(share), std::memory_order_relaxed);
}

void TurnTaker::account() noexcept {
  const uint64_t now_ns = turns_->clock_.now_ns();
  virtual_ns_ += static_cast<double>(now_ns - since_ns_) / share_.load(std::memory_order_relaxed);
  turns_->virtual_ns_ = std::max(turns_->virtual_ns_, virtual_ns_);
  since_ns_ = now_ns;
}

void TurnTaker::wait(std::unique_lock<std::mutex>& lock, uint64_t from_ns) noexcept {
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
    virtual_ns_ = std::max(virtual_ns_, turns_->virtual_ns_ - static_cast<double>(kCreditNs));
    if (turns_->holder_ == nullptr) {
      turns_->give(this);
    } else {
      turns_->waiting_.push_back(this);
      turns_->num_waiting_.store(static_cast<uint32_t>(turns_->waiting_.size()),
                                 std::memory_order_relaxed);
      wait(lock, turns_->clock_.now_ns());
    }
  }
  holds_ = true;
  if (turns_->last_.exchange(this, std::memory_order_relaxed) != this)
    turns_->changed_ns_.store(turns_->clock_.now_ns(), std::memory_order_relaxed);
}

void TurnTaker::pass() noexcept {
  if (!is_wanted()) return;
  {
    std::unique_lock lock(turns_->mutex_);
    account();
    TurnTaker* next = turns_->next_waiting();
    if (next == nullptr || next->virtual_ns_ + static_cast<double>(kPartNs) >= virtual_ns_) return;
    turns_->waiting_.push_back(this);
    const uint64_t from_ns = since_ns_;  // account() has set it
    turns_->give(next);
    wait(lock, from_ns);
  }
  turns_->last_.store(this, std::memory_order_relaxed);
  turns_->changed_ns_.store(turns_->clock_.now_ns(), std::memory_order_relaxed);
}

void TurnTaker::end() noexcept {
  if (!holds_) return;
  holds_ = false;
  const std::lock_guard lock(turns_->mutex_);
  account();
  turns_->give(turns_->next_waiting());
}

bool TurnTaker::has_company() const noexcept {
  return is_wanted() ||
         (turns_->changed_ns_.load(std::memory_order_relaxed) != 0 &&
          turns_->clock_.now_ns() - turns_->changed_ns_.load(std::memory_order_relaxed) <
              kCompanyNs);
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
