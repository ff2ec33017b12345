// The slices of one itif stream: the CUDA streams that it has on each, and its moves between them.
// The thread that changes the share makes them, with the parts of their context. They are kept.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "device/cuda/slices/slices.h"

namespace itif::device::cuda {

// The stream's thread calls all but set_percent().
class StreamSlices final : private SliceUser {
 public:
  // Makes the stream's parts in the current context. Any thread.
  using MakeInContext = std::function<Result<std::shared_ptr<InContext>>()>;
  // Begins on slice 0. Errors: kResourceExhausted, kInternal.
  static Result<std::unique_ptr<StreamSlices>> make(std::shared_ptr<Slices> slices,
                                                    MakeInContext make_in_context);
  ~StreamSlices() override;
  StreamSlices(const StreamSlices&) = delete;
  StreamSlices& operator=(const StreamSlices&) = delete;

  void set_percent(double percent) noexcept;  // any thread
  const SliceStreams& here() const { return *here_; }
  uint64_t num_moves() const { return num_moves_; }
  // Returns the numbers of multiprocessors that other slices in the same context have; 0: all.
  std::vector<uint32_t> other_counts() const;
  bool wants_to_move() const { return wanted_.load(std::memory_order_acquire) != here_; }
  // Moves to the wanted slice, and enters its context: its stream waits on the device for all
  // launches on the former one. The host does not wait. Call between two batches.
  cudaError_t move();

 private:
  StreamSlices(std::shared_ptr<Slices> slices, MakeInContext make_in_context)
      : slices_(std::move(slices)), make_in_context_(std::move(make_in_context)) {}
  void use_slice(uint32_t slice) noexcept override;
  Result<std::unique_ptr<SliceStreams>> make_streams(uint32_t slice) const;

  const std::shared_ptr<Slices> slices_;
  const MakeInContext make_in_context_;
  std::vector<std::unique_ptr<SliceStreams>> all_;  // guarded by Slices' lock
  const SliceStreams* here_ = nullptr;
  std::atomic<const SliceStreams*> wanted_{nullptr};
  uint64_t num_moves_ = 0;
};

}  // namespace itif::device::cuda
