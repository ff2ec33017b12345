#include "device/cuda/gemm/gemm_calls.h"

#include <algorithm>
#include <array>
#include <functional>

namespace itif::device::cuda {
namespace {

// cuBLAS cannot check operands behind pointers in device memory. It assumes that they are aligned
// to 16 bytes if k is a multiple of 8, else to 4 bytes if k is even. Only outputs may be aligned to
// less: if the vocabulary is odd and a range does not begin at a multiple of 8 rows.
bool are_outputs_aligned(const kernels::GroupedGemm& args, size_t element_bytes) {
  const size_t alignment = args.k % 8 == 0 ? 16 : args.k % 2 == 0 ? 4 : 1;
  const size_t row_bytes = args.n * (args.f32_out ? sizeof(float) : element_bytes);
  return std::ranges::all_of(args.ranges, [&](const kernels::RowRange& range) {
    return range.first_row * row_bytes % alignment == 0;
  });
}

bool is_strided(std::span<const kernels::RowRange> ranges, kernels::GemmMode mode) {
  return mode != kernels::GemmMode::kPointers && has_constant_strides(ranges);
}

}  // namespace

bool are_few_rows(std::span<const kernels::RowRange> ranges) {
  return ranges.back().first_row + ranges.back().num_rows <= kFewRows;
}
bool are_equally_long(std::span<const kernels::RowRange> ranges) {
  return std::ranges::all_of(
      ranges, [&](const kernels::RowRange& r) { return r.num_rows == ranges[0].num_rows; });
}
bool has_constant_strides(std::span<const kernels::RowRange> ranges) {
  if (ranges.size() < 2 || are_few_rows(ranges) || !are_equally_long(ranges)) return false;
  if (ranges[1].slot < ranges[0].slot) return false;
  const uint32_t step = ranges[1].slot - ranges[0].slot;
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].slot != ranges[0].slot + i * step) return false;
  return true;
}

CallKind kind_of(BlasCall call, const kernels::GroupedGemm& args) {
  return {.call = call, .f32_out = args.f32_out, .n = args.n, .k = args.k};
}

// Returns true if cuBLAS has a call for these ranges together, which it has not refused.
bool GemmCalls::can_batch(const kernels::GroupedGemm& args, kernels::GemmMode mode) const {
  BlasCall call = BlasCall::kByPointers;
  // By pointers, cuBLAS is slow at one GEMM (runtime/graph_buckets.cc).
  if (args.ranges.size() == 1) return false;
  if (!are_outputs_aligned(args, dtype_bytes(activations_))) {
    return false;
  } else if (!are_equally_long(args.ranges)) {
    if (!can_group(args)) return false;
    call = BlasCall::kGrouped;
  } else if (is_strided(args.ranges, mode)) {
    call = BlasCall::kStrided;
  }
  return !refusals_.has(kind_of(call, args));
}

// Grouped calls of 16-bit operands have no f32 results, and want n and k to be multiples of 8.
bool GemmCalls::can_group(const kernels::GroupedGemm& args) const {
  return activations_ == DType::kF32 || (!args.f32_out && args.n % 8 == 0 && args.k % 8 == 0);
}

bool GemmCalls::are_single(const kernels::GroupedGemm& args) const {
  const kernels::GemmSchedule& schedule = args.schedule;
  if (!schedule.calls().empty())
    return std::ranges::all_of(schedule.calls(),
                               [](const kernels::GemmCall& call) { return call.num_ranges == 1; });
  const kernels::GemmMode mode = schedule.mode_of(args.n, args.k);
  return mode == kernels::GemmMode::kSequential || mode == kernels::GemmMode::kStreams ||
         !can_batch(args, mode);
}

void GemmCalls::add(const kernels::GroupedGemm& args, bool has_epilogue) {
  using enum kernels::GemmMode;
  const bool is_planned = !args.schedule.calls().empty();
  const kernels::GemmMode mode = is_planned ? kStreams : args.schedule.mode_of(args.n, args.k);
  const auto num_ranges = static_cast<uint32_t>(args.ranges.size());
  // Appends calls for ranges [first, first + count): one for all of them, or one each.
  const auto append = [&](uint32_t first, uint32_t count, bool is_one_call, double cost_ns) {
    for (uint32_t at = 0; at < count; at += is_one_call ? count : 1) {
      Call& call = calls_.emplace_back();
      call.args = args;
      call.args.ranges = args.ranges.subspan(first + at, is_one_call ? count : 1);
      call.is_batched = is_one_call;
      call.by_pointers = is_one_call && !is_strided(call.args.ranges, mode);
      call.has_epilogue = has_epilogue;
      call.part = mode == kSequential ? num_parts_ : num_parts_++;
      call.cost_ns = is_one_call ? cost_ns : cost_ns / count;
      if (!is_planned && !is_one_call)
        call.cost_ns = args.schedule.range_ns(args.n, args.k, call.args.ranges[0].num_rows);
      for (const kernels::RowRange& range : call.args.ranges)
        call.products += static_cast<double>(range.num_rows) * args.n * args.k;
    }
  };
  if (!is_planned) {
    append(0, num_ranges, !are_single(args), 0);
    if (mode == kSequential) ++num_parts_;
    return;
  }
  uint32_t first = 0;
  for (const kernels::GemmCall& call : args.schedule.calls()) {
    kernels::GroupedGemm batch = args;
    batch.ranges = args.ranges.subspan(first, call.num_ranges);
    append(first, call.num_ranges, call.num_ranges > 1 && can_batch(batch, mode), call.cost_ns);
    first += call.num_ranges;
  }
}

// Assigns the longest parts first, each to the stream with the least work.
size_t GemmCalls::balance() {
  const bool has_costs =
      std::ranges::all_of(calls_, [](const Call& call) { return call.cost_ns > 0; });
  parts_.assign(num_parts_, {});
  for (const Call& call : calls_) {
    parts_[call.part].index = call.part;
    parts_[call.part].work += has_costs ? call.cost_ns : call.products;
  }
  std::ranges::sort(parts_, std::less());
  stream_of_.resize(num_parts_);
  std::array<double, kStreams> loads = {};
  for (const Part& part : parts_) {
    const auto stream = static_cast<size_t>(std::ranges::min_element(loads) - loads.begin());
    stream_of_[part.index] = stream;
    loads[stream] += part.work;
  }
  for (Call& call : calls_) call.stream_index = stream_of_[call.part];
  return std::min(num_parts_, kStreams);
}

}  // namespace itif::device::cuda
