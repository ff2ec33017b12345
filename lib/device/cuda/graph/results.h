// Results of a batch: pieces of device memory that are copied to the host. One launch gathers them
// side by side, before later launches overwrite them. One copy brings all of them to the host at
// the end of the batch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/cuda/graph/graphs.h"
#include "device/cuda/memory/memory.h"
#include "device/cuda/memory/plan_memory.h"
#include "device/cuda/slices/slices.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

// Device memory where results are gathered. All batches of a stream share it, because launches run
// in order.
class ResultStaging {
 public:
  // Errors: kResourceExhausted, kInternal.
  static Result<std::shared_ptr<ResultStaging>> make(std::shared_ptr<Budget> budget, size_t bytes);
  std::byte* data() const { return memory_->data(); }
  size_t bytes() const { return memory_->bytes(); }
  // Grows to `bytes` and keeps the first `used` bytes. REQUIRES: all launches were submitted to
  // `streams`. Errors: as make().
  Status grow(size_t bytes, size_t used, const SliceStreams& streams);

 private:
  ResultStaging(std::shared_ptr<Budget> budget, std::unique_ptr<Buffer> memory)
      : budget_(std::move(budget)), memory_(std::move(memory)) {}
  std::shared_ptr<Budget> budget_;
  std::unique_ptr<Buffer> memory_;
};

class Results {
 public:
  // Allocates as much pinned memory as `staging` has. Errors: kResourceExhausted.
  static Result<Results> make(std::shared_ptr<ResultStaging> staging);

  void add(const void* source, size_t bytes, void* target);
  // Returns true if a piece was added that later launches may overwrite.
  bool has_unstaged() const { return !pieces_.empty(); }
  // Logs the launch that gathers the added pieces. If results need more memory than there is, first
  // calls `flush`, which submits the logged launches. Errors: kResourceExhausted, kInternal.
  Status stage(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
               const SliceStreams& streams, const std::function<void()>& flush);
  // Copies the gathered results to pinned host memory, after the stream's launches.
  cudaError_t copy(cudaStream_t stream);
  // Writes the results to their targets. REQUIRES: copy() has completed.
  void deliver() const;
  void clear() noexcept;

 private:
  struct Target {
    size_t at = 0, bytes = 0;
    void* to = nullptr;
  };
  Status make_room(const SliceStreams& streams, const std::function<void()>& flush);

  std::shared_ptr<ResultStaging> staging_;
  Pinned host_;
  size_t staged_ = 0;                             // bytes gathered by launches
  size_t used_ = 0;                               // bytes gathered or added
  std::vector<kernels::cuda::CopyPiece> pieces_;  // added, not gathered yet
  std::vector<Target> targets_;
};

}  // namespace itif::device::cuda
