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
  // Nobody reads the packets of these requests any more, nor their `pieces`: they may go back to where they came
  // from, while the requests stay the executor's. Of a request at most once, and before complete().
  virtual void release_packets(std::span<request::Request* const>) noexcept {}
};

}  // namespace itif::runtime
