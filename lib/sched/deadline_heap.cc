#include "sched/deadline_heap.h"

#include "base/check.h"

namespace itif::sched {

void DeadlineHeap::put(size_t position, request::Request* request) noexcept {
  heap_[position] = request;
  request->deadline_position = static_cast<uint32_t>(position);
}

void DeadlineHeap::rise(size_t position, request::Request* request) noexcept {
  while (position > 0) {
    const size_t parent = (position - 1) / 2;
    if (heap_[parent]->deadline_ns <= request->deadline_ns) break;
    put(position, heap_[parent]);
    position = parent;
  }
  put(position, request);
}

void DeadlineHeap::sink(size_t position, request::Request* request) noexcept {
  for (size_t child; (child = 2 * position + 1) < heap_.size(); position = child) {
    if (child + 1 < heap_.size() && heap_[child + 1]->deadline_ns < heap_[child]->deadline_ns)
      ++child;
    if (request->deadline_ns <= heap_[child]->deadline_ns) break;
    put(position, heap_[child]);
  }
  put(position, request);
}

void DeadlineHeap::push(request::Request* request) noexcept {
  if (request->deadline_ns == 0) return;
  heap_.push_back(request);
  rise(heap_.size() - 1, request);
}

void DeadlineHeap::remove(request::Request* request) noexcept {
  if (request->deadline_ns == 0) return;
  const size_t position = request->deadline_position;
  CHECK(position < heap_.size() && heap_[position] == request);
  request::Request* last = heap_.back();
  heap_.pop_back();
  if (last == request) return;
  if (last->deadline_ns < request->deadline_ns)
    rise(position, last);
  else
    sink(position, last);
}

}  // namespace itif::sched
