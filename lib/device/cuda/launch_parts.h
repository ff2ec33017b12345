// What a batch has launched so far, in the parts that Stream::begin_part() separates, each with its key.
#pragma once

#include <vector>

#include "device/cuda/graphs.h"

namespace itif::device::cuda {

class LaunchParts {
 public:
  kernels::cuda::LaunchLog& log() { return log_; }
  LaunchKey& key() { return key_; }
  bool empty() const { return log_.end().size == 0; }

  // Whether anything was launched since the last end.
  bool end_part() {
    if (log_.end().size == ends_.back().launches.size) return false;
    ends_.push_back({log_.end(), key_.bytes().size()});
    return true;
  }
  // That have ended.
  size_t size() const { return ends_.size() - 1; }
  template <class Body>
  void for_each(const Body& body) {
    (void)end_part();
    for (size_t i = 1; i < ends_.size(); ++i)
      body(LaunchPart{.log = log_,
                      .from = ends_[i - 1].launches,
                      .to = ends_[i].launches,
                      .key = key_.bytes().subspan(ends_[i - 1].key_bytes,
                                                  ends_[i].key_bytes - ends_[i - 1].key_bytes)});
  }
  // Keeps the memory.
  void clear() {
    log_.clear();
    key_.clear();
    ends_.resize(1);
  }

 private:
  struct End {
    kernels::cuda::LaunchLog::Mark launches;
    size_t key_bytes = 0;
  };
  kernels::cuda::LaunchLog log_;
  LaunchKey key_;
  std::vector<End> ends_ = {{}};  // behind the place where the first part begins
};

}  // namespace itif::device::cuda
