#include "serving/window.h"

namespace itif::serving {

Window::Recent Window::advance(uint64_t now_ns, const Reading& now) {
  const std::lock_guard lock(mutex_);
  if (now_ns - newer_.at_ns >= kHalfNs) {
    older_ = std::move(newer_);
    newer_ = {now_ns, now};
  }
  Recent recent{now_ns - older_.at_ns, now};
  for (auto& [id, figures] : recent.since) {
    const auto earlier = older_.figures.find(id);
    if (earlier != older_.figures.end()) figures -= earlier->second;
  }
  return recent;
}

}  // namespace itif::serving
