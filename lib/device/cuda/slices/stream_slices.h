// The slices of one itif stream: the CUDA streams that it has on each, and its moves between them.
// CUDA streams are made in the thread that changes the share, and kept.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "device/cuda/driver/event.h"
#include "device/cuda/slices/slices.h"

namespace itif::device::cuda {

// The stream's thread calls all but set_percent().
class StreamSlices final : private SliceUser {
 public:
  // Begins on slice 0. Errors: kResourceExhausted, kInternal.
  static Result<std::unique_ptr<StreamSlices>> make(std::shared_ptr<Slices> slices);
  ~StreamSlices() override;
  StreamSlices(const StreamSlices&) = delete;
  StreamSlices& operator=(const StreamSlices&) = delete;

  void set_percent(double percent) noexcept;  // any thread
  const SliceStreams& here() const { return *here_; }
  uint64_t num_moves() const { return num_moves_; }
  bool wants_to_move() const { return wanted_.load(std::memory_order_acquire) != here_; }
  // Moves to the wanted slice: its stream waits on the device for all launches on the former one.
  // The host does not wait. Call between two batches.
  cudaError_t move();

 private:
  explicit StreamSlices(std::shared_ptr<Slices> slices) : slices_(std::move(slices)) {}
  void use_slice(uint32_t slice) noexcept override;

  const std::shared_ptr<Slices> slices_;
  std::vector<std::unique_ptr<SliceStreams>> all_;  // guarded by Slices' lock
  const SliceStreams* here_ = nullptr;
  std::atomic<const SliceStreams*> wanted_{nullptr};
  StreamEvent left_;  // the end of the launches on the former slice
  uint64_t num_moves_ = 0;
};

}  // namespace itif::device::cuda
