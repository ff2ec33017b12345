// Receives the requests that a group's executor hands back. Virtual at batch granularity.
#pragma once

#include <span>

#include "request/request.h"

namespace itif::runtime {

class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // Every request has a status, and a result if that is kOk. The executor no longer touches them.
  virtual void complete(std::span<request::Request* const> requests) noexcept = 0;
  // The packets and `pieces` of these requests have been read and may go back to their owner. The
  // executor keeps the requests. Called at most once per request, before complete().
  virtual void release_packets(std::span<request::Request* const>) noexcept {}
};

}  // namespace itif::runtime
