// The waiting requests that have a deadline, earliest first: a binary heap. Requests keep their
// positions in it, so that any of them can be removed in O(log n).
//
// Owned by the executor's thread.
#pragma once

#include <cstddef>
#include <vector>

#include "request/request.h"

namespace itif::sched {

class DeadlineHeap {
 public:
  // Allocates nothing while it holds at most `max_requests`.
  explicit DeadlineHeap(size_t max_requests) { heap_.reserve(max_requests); }

  // Returns nullptr if no request has a deadline.
  request::Request* earliest() const noexcept { return heap_.empty() ? nullptr : heap_.front(); }
  size_t size() const noexcept { return heap_.size(); }
  // Does nothing if the request has no deadline.
  void push(request::Request* request) noexcept;
  // REQUIRES: the heap holds the request, unless it has no deadline.
  void remove(request::Request* request) noexcept;

 private:
  void put(size_t position, request::Request* request) noexcept;
  void rise(size_t position, request::Request* request) noexcept;
  void sink(size_t position, request::Request* request) noexcept;

  std::vector<request::Request*> heap_;
};

}  // namespace itif::sched
