// Decides whether a request can still be answered by its deadline: policies ask it of waiting
// requests, executors of running ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "request/request.h"
#include "sched/executor_state.h"

namespace itif::sched {

enum class DeadlineMiss : uint8_t {
  kPassed,         // the deadline passed while the request waited
  kTooSoon,        // the deadline passes before a batch of this request alone could end
  kWaitedTooLong,  // the request has waited longer than PolicyOptions::max_wait_ns
};

// Returns true if the request's deadline is not after now_ns.
inline bool deadline_passed(const request::Request& request, uint64_t now_ns) noexcept {
  return request.deadline_ns != 0 && request.deadline_ns <= now_ns;
}

// Returns why a waiting request cannot meet its deadline in the next batch; nullopt: it can, or it
// has none.
inline std::optional<DeadlineMiss> deadline_miss(const request::Request& request,
                                                 const ExecutorState& state) noexcept {
  if (request.deadline_ns == 0) return std::nullopt;
  if (deadline_passed(request, state.now_ns)) return DeadlineMiss::kPassed;
  const auto start_ns = static_cast<double>(std::max(state.now_ns, state.start_ns));
  const double left_ns = static_cast<double>(request.deadline_ns) - start_ns;
  if (left_ns >= state.costs.expected.batch_ns(request.num_tokens)) return std::nullopt;
  return DeadlineMiss::kTooSoon;
}

}  // namespace itif::sched
