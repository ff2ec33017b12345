// Receives the requests that a group's executor hands back, and learns how long it is busy. Virtual
// at batch granularity.
#pragma once

#include <cstdint>
#include <span>

#include "request/request.h"

namespace itif::runtime {

class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // Every request has a status, and a result if that is kOk, unless it has expired (request.h). The
  // executor no longer touches them.
  virtual void complete(std::span<request::Request* const> requests) noexcept = 0;
  // The packets and `pieces` of these requests have been read and may go back to their owner. The
  // executor keeps the requests. Called at most once per request, before complete().
  virtual void release_packets(std::span<request::Request* const>) noexcept {}
  // The oldest running batch began at `begin_ns`: when the executor began to choose it, or when the
  // batch before it ended. 0: none runs. Not called by an executor whose running batch others may
  // join.
  virtual void running_since(uint64_t /*begin_ns*/) noexcept {}
  // The running batches are expected to end at `end_ns`, and the next starts then; 0: none runs.
  // Not called by an executor whose running batch others may join.
  virtual void busy_until(uint64_t /*end_ns*/) noexcept {}
};

}  // namespace itif::runtime
