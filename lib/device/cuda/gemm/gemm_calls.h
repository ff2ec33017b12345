// Divides the ranges of a launch's GEMMs into cuBLAS calls, and the calls among streams.
//
// A planned call is one call. GemmMode::kSequential and kStreams make a call for each range,
// kConcurrent and kPointers one for all ranges. If cuBLAS has no call for these ranges together,
// each range gets its own.
//
// The calls of a launch are spread over streams, so that all have equal work: by the measured costs
// that come with the schedule, else by products (ITIF, section 4.2.1). GemmMode::kSequential keeps
// a GEMM's calls on one stream.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "device/cuda/gemm/refusals.h"
#include "kernels/args.h"
#include "tensor/dtype.h"

namespace itif::device::cuda {

// DeviceInfo::max_bucket_rows: beyond, even GEMMs of a single tenant's rows fill an H200.
inline constexpr uint32_t kMaxBucketRows = 4096;
// The largest batch, in rows, whose launches cost more than its arithmetic.
inline constexpr uint32_t kFewRows = 512;

// Returns true if launches cost more than pointer lookups: all tenants then share one graph.
bool are_few_rows(std::span<const kernels::RowRange> ranges);
bool are_equally_long(std::span<const kernels::RowRange> ranges);
// Returns true if one strided call suits the ranges: many rows, equally long, slots equally apart.
bool has_constant_strides(std::span<const kernels::RowRange> ranges);

// The kind of a call of several ranges.
CallKind kind_of(BlasCall call, const kernels::GroupedGemm& args);

class GemmCalls {
 public:
  static constexpr size_t kStreams = 3;  // as many as ITIF has: query, key and value take one each

  struct Call {
    kernels::GroupedGemm args;  // its ranges only
    bool is_batched = false;    // one call for all its ranges; false: it has one range
    bool by_pointers = false;   // plan memory holds its operands' addresses. REQUIRES: is_batched
    bool has_epilogue = false;
    size_t part = 0;  // calls of the same part run on the same stream
    size_t stream_index = 0;
    double cost_ns = 0;   // by the cost tables; 0: unknown
    double products = 0;  // multiplications
  };

  explicit GemmCalls(DType activations) : activations_(activations) {}

  // Ranges whose call cuBLAS has refused get a call each.
  Refusals& refusals() { return refusals_; }
  const Refusals& refusals() const { return refusals_; }

  // Returns true if every call has one range.
  bool are_single(const kernels::GroupedGemm& args) const;
  void clear() noexcept {
    calls_.clear();
    num_parts_ = 0;
  }
  // REQUIRES: args has ranges.
  void add(const kernels::GroupedGemm& args, bool has_epilogue);
  // Assigns the streams. Returns how many are used: streams from 0 on.
  size_t balance();
  std::span<const Call> all() const { return calls_; }

 private:
  struct Part {
    size_t index = 0;
    double work = 0;
    bool operator<(const Part& other) const {  // the longest first
      return work != other.work ? work > other.work : index < other.index;
    }
  };
  bool can_batch(const kernels::GroupedGemm& args, kernels::GemmMode mode) const;
  bool can_group(const kernels::GroupedGemm& args) const;

  const DType activations_;
  Refusals refusals_;
  std::vector<Call> calls_;
  size_t num_parts_ = 0;
  std::vector<Part> parts_;
  std::vector<size_t> stream_of_;  // by part
};

}  // namespace itif::device::cuda
