// Divides a GPU among its streams: keeps the streams' shares, places them on the ladder, and tells
// each stream its slice. A change of one share can move the others.
//
// A stream moves between two batches (SliceStreams). Slices of streams with shares are disjoint,
// but a stream that has moved does not wait for the one that leaves its new multiprocessors: until
// that one's running batch ends, both use them.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/cuda/slices/ladder.h"

namespace itif::device::cuda {

// The CUDA streams of one itif stream on one slice: that of its launches, then those on which it
// spreads GEMMs.
struct SliceStreams {
  static constexpr size_t kStreams = 3;
  uint32_t slice = 0;
  uint32_t processors = 0;  // 0: all
  std::array<cudaStream_t, kStreams> streams = {};

  SliceStreams() = default;
  SliceStreams(const SliceStreams&) = delete;
  SliceStreams& operator=(const SliceStreams&) = delete;
  ~SliceStreams();
};

// A stream that has a part of the GPU.
class SliceUser {
 public:
  virtual ~SliceUser() = default;
  // Continues on `slice` from the next batch on. Makes the CUDA streams if they are missing: the
  // stream's own thread makes none. Called with Slices' lock held, by any thread.
  virtual void use_slice(uint32_t slice) noexcept = 0;
};

// Any thread.
class Slices {
 public:
  // `wanted`: as SliceLadder::open(). Errors: as there.
  static Result<std::unique_ptr<Slices>> open(int ordinal, std::string wanted);

  SliceKind kind() const;
  uint32_t num_steps() const;
  std::vector<uint32_t> processor_counts() const;

  // `percent`: above 0, or 0: the whole GPU. The user outlives its entry.
  void set(SliceUser& user, double percent) noexcept;
  void remove(const SliceUser& user) noexcept;
  // Errors: as SliceLadder::make_stream(); kUnavailable after close().
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

  Slices(int ordinal, std::string wanted) : ordinal_(ordinal), wanted_(std::move(wanted)) {}
  void place() noexcept;  // REQUIRES: mutex_

  const int ordinal_;
  const std::string wanted_;
  mutable std::recursive_mutex mutex_;   // use_slice() calls make_streams()
  std::unique_ptr<SliceLadder> ladder_;  // null: closed
  std::vector<Entry> entries_;
};

}  // namespace itif::device::cuda
