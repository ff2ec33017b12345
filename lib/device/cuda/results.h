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

class Results {
 public:
  explicit Results(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}

  void add(const void* source, size_t bytes, void* target);
  // Whether something was added that later launches may overwrite.
  bool has_unstaged() const { return !pieces_.empty(); }
  // Logs the launch that puts it aside. `flush` hands over what is logged: only while the first batches find out
  // how much memory results take. Errors: kResourceExhausted, kInternal.
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
  Status grow(cudaStream_t stream, const std::function<void()>& flush);

  std::shared_ptr<Budget> budget_;
  std::unique_ptr<Buffer> staged_;  // on the device, as many bytes as
  Pinned host_;
  size_t used_ = 0;
  std::vector<kernels::cuda::CopyPiece> pieces_;  // not staged
  std::vector<Target> targets_;
};

}  // namespace itif::device::cuda
