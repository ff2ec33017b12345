// The slices of a GPU that streams can compute on, made when the device is opened.
//
// With green contexts, the driver divides the multiprocessors into partitions of the least size
// that it allows (8 on compute capability 9.0). They form up to kMaxSteps steps of as equal size as
// possible. Each run of adjacent steps is a green context, except the run of all steps: that slice
// is the whole device. Slices of disjoint runs have no multiprocessor in common. Multiprocessors
// that the driver puts in no partition belong to the whole device only.
//
// With MPS, each run of adjacent steps is a context that is limited to the steps' number of
// multiprocessors. The driver does not choose which: two slices may meet on some, while others are
// idle. There are fewer steps, because each context takes device memory.
//
// With priorities, a slice is a priority: all slices use all multiprocessors, and those that become
// free take blocks of the highest priority first.
//
// Slice 0 is the whole device, at the lowest priority, in the primary context.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/cuda/driver/context.h"
#include "device/cuda/slices/placement.h"

namespace itif::device::cuda {

enum class SliceKind : uint8_t { kNone, kGreenContexts, kMps, kPriorities };
std::string_view name_of(SliceKind kind);

struct SliceOptions {
  // auto (the first that works of green contexts, MPS, priorities and none), or a kind by name.
  std::string wanted = "auto";
  // Why streams cannot use several contexts. Empty: they can, as MPS needs.
  std::string needs_one_context;
};

class SliceLadder {
 public:
  // Multiples of 1/8 of a GPU. Eight steps have 35 green contexts; the hardware keeps a table of 64
  // contexts.
  static constexpr uint32_t kMaxSteps = 8;
  static constexpr uint32_t kMaxMpsSteps = 4;  // nine contexts

  // `ordinal`: the GPU, as the CUDA runtime counts them. Errors: kUnsupported, the GPU, the driver
  // or the machine lacks the wanted kind; kInvalidArgument, no such kind.
  static Result<std::unique_ptr<SliceLadder>> open(int ordinal, const SliceOptions& options);
  ~SliceLadder();
  SliceLadder(const SliceLadder&) = delete;
  SliceLadder& operator=(const SliceLadder&) = delete;

  SliceKind kind() const { return kind_; }
  // Steps or priorities; 0: the kind is kNone.
  uint32_t num_steps() const { return num_steps_; }
  // Returns the slices of streams with these shares, in their order. REQUIRES: each is above 0.
  std::vector<uint32_t> slices_of(std::span<const double> percents) const;
  // Returns how many multiprocessors a slice has; 0: all.
  uint32_t processors(uint32_t slice) const;
  // Returns the different numbers of multiprocessors that slices have, without 0.
  std::vector<uint32_t> processor_counts() const;
  // Returns the context of a slice's streams; nullptr: the primary one.
  std::shared_ptr<const LimitedContext> context(uint32_t slice) const;
  // Makes a non-blocking stream. REQUIRES: the slice's context is current. Errors:
  // kResourceExhausted, kInternal.
  Result<cudaStream_t> make_stream(uint32_t slice) const;

 private:
  struct Driver {
    decltype(&cuDeviceGetDevResource) get_resource = nullptr;
    decltype(&cuDevSmResourceSplitByCount) split = nullptr;
    decltype(&cuDevResourceGenerateDesc) describe = nullptr;
    decltype(&cuGreenCtxCreate) create = nullptr;
    decltype(&cuGreenCtxDestroy) destroy = nullptr;
    decltype(&cuGreenCtxStreamCreate) make_stream = nullptr;
  };
  struct Context {
    CUgreenCtx green = nullptr;                     // either this
    std::shared_ptr<const LimitedContext> limited;  // or this
    uint32_t processors = 0;
  };

  explicit SliceLadder(int ordinal) : ordinal_(ordinal) {}
  Status open_kind(SliceKind kind, const SliceOptions& options);
  Status open_green_contexts();
  Status make_contexts(std::span<CUdevResource> partitions, uint32_t num_steps);
  void close_contexts() noexcept;
  Status open_mps(const SliceOptions& options);
  Status make_limited_contexts(uint32_t num_processors, uint32_t num_steps);
  bool has_contexts() const {
    return kind_ == SliceKind::kGreenContexts || kind_ == SliceKind::kMps;
  }
  Status open_priorities();
  uint32_t slice_of(const Run& run) const;
  std::vector<uint32_t> ranks_of(std::span<const double> percents) const;

  const int ordinal_;
  SliceKind kind_ = SliceKind::kNone;
  uint32_t num_steps_ = 0;
  Driver driver_;
  std::vector<Context> contexts_;  // slice n has contexts_[n - 1]; by first step, then by count
  int lowest_priority_ = 0;        // of slice 0; lower numbers are higher priorities
};

}  // namespace itif::device::cuda
