// The launches of a batch so far, in graph segments that Stream::end_graph_segment() separates.
// Each segment has a key.
#pragma once

#include <vector>

#include "device/cuda/graph/graphs.h"

namespace itif::device::cuda {

class GraphSegments {
 public:
  kernels::cuda::LaunchLog& log() { return log_; }
  LaunchKey& key() { return key_; }
  bool empty() const { return log_.end().size == 0; }

  // Ends a segment. Returns false if nothing was launched since the last one ended.
  bool end_segment() {
    if (log_.end().size == ends_.back().launches.size) return false;
    key_.append(log_.key(ends_.back().launches, log_.end()));
    ends_.push_back({log_.end(), key_.bytes().size(), key_.kept().size()});
    return true;
  }
  // Number of ended segments.
  size_t size() const { return ends_.size() - 1; }
  template <class Body>
  void for_each(const Body& body) {
    (void)end_segment();
    for (size_t i = 1; i < ends_.size(); ++i) {
      const End &from = ends_[i - 1], &to = ends_[i];
      body(GraphSegment{.log = log_,
                        .from = from.launches,
                        .to = to.launches,
                        .key = key_.bytes().subspan(from.key_bytes, to.key_bytes - from.key_bytes),
                        .kept = key_.kept().subspan(from.num_kept, to.num_kept - from.num_kept)});
    }
  }
  // Keeps allocated memory.
  void clear() {
    log_.clear();
    key_.clear();
    ends_.resize(1);
  }

 private:
  struct End {
    kernels::cuda::LaunchLog::Mark launches;
    size_t key_bytes = 0, num_kept = 0;
  };
  kernels::cuda::LaunchLog log_;
  LaunchKey key_;
  std::vector<End> ends_ = {{}};  // ends_[0]: where the first segment begins
};

}  // namespace itif::device::cuda
