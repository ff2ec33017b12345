// What a batch brings to the host: pieces of device memory, put side by side there by one launch as they stand ahead of
// the next, and all of them copied at once when the batch has been launched.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/cuda/graphs.h"
#include "device/cuda/memory.h"
#include "device/cuda/plan_memory.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {

// Where the results of a stream's batches are put side by side: one for all, since its launches run in order.
class ResultStaging {
 public:
  // Errors: kResourceExhausted, kInternal.
  static Result<std::shared_ptr<ResultStaging>> make(std::shared_ptr<Budget> budget, size_t bytes);
  std::byte* data() const { return memory_->data(); }
  size_t bytes() const { return memory_->bytes(); }
  // `used` bytes move along. REQUIRES: what was launched has been handed to `stream`. Errors: as make().
  Status grow(size_t bytes, size_t used, cudaStream_t stream);

 private:
  ResultStaging(std::shared_ptr<Budget> budget, std::unique_ptr<Buffer> memory)
      : budget_(std::move(budget)), memory_(std::move(memory)) {}
  std::shared_ptr<Budget> budget_;
  std::unique_ptr<Buffer> memory_;
};

class Results {
 public:
  // With room for as much as `staging` has. Errors: kResourceExhausted.
  static Result<Results> make(std::shared_ptr<ResultStaging> staging);

  void add(const void* source, size_t bytes, void* target);
  // Whether something was added that later launches may overwrite.
  bool has_unstaged() const { return !pieces_.empty(); }
  // Logs the launch that puts it aside. `flush` hands over what is logged: only where results take more memory than
  // there is. Errors: kResourceExhausted, kInternal.
  Status stage(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
               cudaStream_t stream, const std::function<void()>& flush);
  // To pinned host memory, behind what the stream has been given.
  cudaError_t copy(cudaStream_t stream);
  // REQUIRES: the copy has come.
  void deliver() const;
  void clear() noexcept;

 private:
  struct Target {
    size_t at = 0, bytes = 0;
    void* to = nullptr;
  };
  Status make_room(cudaStream_t stream, const std::function<void()>& flush);

  std::shared_ptr<ResultStaging> staging_;
  Pinned host_;
  size_t staged_ = 0;                             // bytes that launches put aside
  size_t used_ = 0;                               // and those that are to be
  std::vector<kernels::cuda::CopyPiece> pieces_;  // not staged
  std::vector<Target> targets_;
};

}  // namespace itif::device::cuda
