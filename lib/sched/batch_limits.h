// The capacity of one batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "request/request.h"

namespace itif::sched {

struct BatchLimits {
  uint32_t max_tokens = 4096;
  uint32_t max_requests = 256;
};

// Returns the tokens that fit in `limits` after those of `batch`.
inline uint64_t room(const BatchLimits& limits,
                     const std::vector<request::Request*>& batch) noexcept {
  uint64_t tokens = 0;
  for (const request::Request* request : batch) tokens += request->num_tokens;
  return limits.max_tokens - std::min<uint64_t>(tokens, limits.max_tokens);
}

}  // namespace itif::sched
