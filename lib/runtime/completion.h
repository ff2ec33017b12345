// Where a group's executor hands requests back. Virtual at batch granularity.
#pragma once

#include <span>

#include "request/request.h"

namespace itif::runtime {

class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // Every request has a status, and a result if that is kOk. The executor no longer touches them.
  virtual void complete(std::span<request::Request* const> requests) noexcept = 0;
};

}  // namespace itif::runtime
