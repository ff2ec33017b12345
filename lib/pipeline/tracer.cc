#include "pipeline/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace itif::pipeline {

void Tracer::add(uint32_t tenant_id, const TracedRequest& request) noexcept {
  const uint64_t target = target_.load(std::memory_order_acquire);
  if (target == 0 || static_cast<uint32_t>(target) != tenant_id) return;
  const auto trace = static_cast<uint32_t>(target >> 32);
  if (request.times.arrival_ns < since_ns_.load(std::memory_order_relaxed)) return;
  uint64_t claims = claims_.load(std::memory_order_acquire);
  uint32_t slot;
  do {
    slot = static_cast<uint32_t>(claims);
    if (claims >> 32 != trace || slot >= wanted_.load(std::memory_order_relaxed)) return;
  } while (!claims_.compare_exchange_weak(claims, pair(trace, slot + 1), std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  slots_[slot].request = request;
  slots_[slot].trace.store(trace, std::memory_order_release);
}

// Ends the claims of the present trace, and waits until its claimed slots are written.
void Tracer::close() noexcept {
  target_.store(0, std::memory_order_release);
  const auto claimed =
      static_cast<uint32_t>(claims_.exchange(pair(trace_, kClosed), std::memory_order_acq_rel));
  if (claimed != kClosed) num_claimed_ = claimed;
  for (uint32_t i = 0; i < num_claimed_; ++i)
    while (slots_[i].trace.load(std::memory_order_acquire) != trace_)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
}

Result<uint32_t> Tracer::start(uint32_t tenant_id, uint32_t num_requests) {
  const std::lock_guard lock(mutex_);
  const uint64_t now_ns = clock_.now_ns();
  if (is_open_ && now_ns - read_ns_ < kAbandonedNs)
    return fail(Code::kUnavailable,
                fmt::format("tenant {} is being traced, and there is one trace at a time: try "
                            "again when that one has ended",
                            tenant_id_));
  close();
  if (slots_ == nullptr) slots_ = std::make_unique<Slot[]>(kMaxRequests);
  ++trace_;
  is_open_ = true;
  tenant_id_ = tenant_id;
  num_claimed_ = 0;
  read_ns_ = now_ns;
  wanted_.store(num_requests, std::memory_order_relaxed);
  since_ns_.store(now_ns, std::memory_order_relaxed);
  claims_.store(pair(trace_, 0), std::memory_order_release);
  target_.store(pair(trace_, tenant_id), std::memory_order_release);
  return trace_;
}

Status Tracer::check(uint32_t trace) const {
  if (is_open_ && trace == trace_) return {};
  return fail(Code::kNotFound,
              fmt::format("there is no trace {}: it was stopped, or replaced after {} s without a "
                          "reader",
                          trace, kAbandonedNs / 1'000'000'000));
}

Result<Tracer::Reading> Tracer::read(uint32_t trace, uint32_t first, uint32_t most) {
  const std::lock_guard lock(mutex_);
  ITIF_TRY(check(trace));
  read_ns_ = clock_.now_ns();
  Reading reading{tenant_id_, wanted_.load(std::memory_order_relaxed), {}};
  const uint64_t end = std::min<uint64_t>(reading.wanted, uint64_t{first} + most);
  for (uint64_t i = first; i < end; ++i) {
    if (slots_[i].trace.load(std::memory_order_acquire) != trace_) break;
    reading.requests.push_back(slots_[i].request);
  }
  return reading;
}

Status Tracer::stop(uint32_t trace) {
  const std::lock_guard lock(mutex_);
  ITIF_TRY(check(trace));
  close();
  is_open_ = false;
  return {};
}

}  // namespace itif::pipeline
