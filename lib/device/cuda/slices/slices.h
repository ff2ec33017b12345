// Divides a GPU among its streams: keeps the streams' shares, places them on the ladder, and tells
// each stream its slice. A change of one share can move the others.
//
// A stream moves between two batches (SliceStreams). Green contexts of streams with shares are
// disjoint, but a stream that has moved does not wait for the one that leaves its new
// multiprocessors: until that one's running batch ends, both use them.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cuda/driver/event.h"
#include "device/cuda/slices/ladder.h"

namespace itif::device::cuda {

// The parts of a stream that belong to one context of the GPU, except its CUDA streams.
class InContext {
 public:
  virtual ~InContext() = default;
};

// An itif stream on one slice.
struct SliceStreams {
  static constexpr size_t kStreams = 3;
  int ordinal = 0;
  uint32_t slice = 0;
  uint32_t processors = 0;                        // 0: all
  bool has_own_context = false;                   // false: all slices have the primary one
  std::shared_ptr<const LimitedContext> context;  // null: the primary one
  std::shared_ptr<InContext> in_context;          // the same for all slices of a context
  // The CUDA stream of its launches, then those on which it spreads GEMMs.
  std::array<cudaStream_t, kStreams> streams = {};
  StreamEvent left;  // the end of the launches here, for a move

  SliceStreams() = default;
  // Makes the slice's context current in the calling thread, as launches here need it. Calls of
  // the device make the primary one current again.
  cudaError_t enter() const noexcept;
  SliceStreams(const SliceStreams&) = delete;
  SliceStreams& operator=(const SliceStreams&) = delete;
  ~SliceStreams();
};

// A stream that has a part of the GPU.
class SliceUser {
 public:
  virtual ~SliceUser() = default;
  // Continues on `slice` from the next batch on. Makes the CUDA streams and the parts of their
  // context if they are missing: the stream's own thread makes none. Called with Slices' lock held,
  // by any thread.
  virtual void use_slice(uint32_t slice) noexcept = 0;
};

// Any thread.
class Slices {
 public:
  // As SliceLadder::open().
  static Result<std::unique_ptr<Slices>> open(int ordinal, SliceOptions options);

  SliceKind kind() const;
  uint32_t num_steps() const;
  std::vector<uint32_t> processor_counts() const;

  // `percent`: above 0, or 0: the whole GPU. The user outlives its entry.
  void set(SliceUser& user, double percent) noexcept;
  void remove(const SliceUser& user) noexcept;
  // Without in_context. Errors: as SliceLadder::make_stream(); kUnavailable after close().
  Result<std::unique_ptr<SliceStreams>> make_streams(uint32_t slice) const;

  // Surround a device reset, which destroys contexts. REQUIRES: no user. In between, which lasts if
  // the GPU refuses the reset, there are no slices. Afterwards the GPU may be divided in another
  // way.
  void close() noexcept;
  void open_again() noexcept;

 private:
  struct Entry {
    SliceUser* user;
    double percent;
    uint32_t slice = 0;
  };

  Slices(int ordinal, SliceOptions options) : ordinal_(ordinal), options_(std::move(options)) {}
  void place() noexcept;  // REQUIRES: mutex_

  const int ordinal_;
  const SliceOptions options_;
  mutable std::recursive_mutex mutex_;   // use_slice() calls make_streams()
  std::unique_ptr<SliceLadder> ladder_;  // null: closed
  std::vector<Entry> entries_;
};

}  // namespace itif::device::cuda
