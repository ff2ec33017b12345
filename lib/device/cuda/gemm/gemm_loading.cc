// Runs each kind of cuBLAS call once before a graph captures it. The calls read zeros in place of
// weights, because graphs are captured when there may be no tenant, and write to the memory of the
// call's own results, which no batch uses then. If cuBLAS refuses a call, no simpler one is made:
// it would need weights.
#include <algorithm>
#include <utility>

#include "device/cuda/gemm/gemm.h"

namespace itif::device::cuda {

Status Gemms::load(const GraphSegment& segment, std::span<const uint32_t> processors) {
  const uint32_t present = slice_processors_;
  for (const uint32_t count : processors) {
    ITIF_TRY(use_processors(count));
    GraphCache::load(streams_[0].stream, segment);
  }
  return processors.empty() ? Status{} : use_processors(present);
}

// REQUIRES: the stream runs no batch.
template <class Call>
cudaError_t Gemms::load_once(const Kind& kind, size_t stream_index, const Call& call) {
  // cuBLAS loads kernels for each context, and may choose another one for fewer multiprocessors.
  Kind on_slice = kind;
  on_slice.push_back(slice_processors_);
  on_slice.push_back(static_cast<int64_t>(reinterpret_cast<intptr_t>(context_)));
  if (loaded_.contains(on_slice)) return cudaSuccess;
  cudaError_t error = call();
  if (error == cudaSuccess) error = cudaStreamSynchronize(streams_[stream_index].stream);
  if (error == cudaSuccess) loaded_.insert(std::move(on_slice));
  return error;
}

cudaError_t Gemms::load_strided(const Strided& call, cudaStream_t) {
  Strided with = call;
  if (call.scratch != nullptr) {
    with.w = call.scratch;
    with.stride_w = 0;
  }
  const auto stream_index = static_cast<int64_t>(call.stream_index);
  return call.gemms->load_once(
      {0, stream_index, call.trans_w, call.m, call.n, call.k, call.count, call.type_w,
       call.type_out},
      call.stream_index, [&] {
        return with.count == 1 ? with.gemms->make_single(with)
                               : with.gemms->unless_refused(with).value_or(cudaErrorNotSupported);
      });
}

cudaError_t Gemms::load_with_epilogue(const WithEpilogue& call, cudaStream_t) {
  WithEpilogue with = call;
  with.call.processors = call.gemms->slice_processors_;
  with.call.weight = call.scratch;
  if (call.call.bias != nullptr) with.call.bias = call.scratch;
  return call.gemms->load_once(
      {1, static_cast<int64_t>(call.stream_index),
       static_cast<int64_t>(reinterpret_cast<intptr_t>(call.gemm)), call.call.rows},
      call.stream_index, [&] {
        if (with.call.rows == 0) return cudaSuccess;
        return with.gemms->unless_refused(with).value_or(cudaErrorNotSupported);
      });
}

// All GEMMs of the call compute the same product. Grouped calls are not loaded here: no graph
// bucket uses them, and other graphs are captured only after such a call has run.
cudaError_t Gemms::load_pointers(const Pointers& call, cudaStream_t) {
  Gemms& g = *call.gemms;
  if (call.groups != nullptr || call.count > static_cast<int>(kMaxBucketRows)) return cudaSuccess;
  const auto count = static_cast<size_t>(call.count);
  const auto stream_index = static_cast<int64_t>(call.stream_index);
  return g.load_once(
      {2, stream_index, call.m, call.n, call.k, call.count, call.type_out}, call.stream_index, [&] {
        auto* const host = reinterpret_cast<const void**>(g.host_scratch_pointers_.data());
        auto* const device = reinterpret_cast<const void**>(g.scratch_pointers_->data());
        std::fill_n(host, count, call.scratch);
        std::fill_n(host + count, count, call.input);
        std::fill_n(host + 2 * count, count, call.output);
        if (const cudaError_t error =
                cudaMemcpyAsync(device, host, 3 * count * sizeof(void*), cudaMemcpyHostToDevice,
                                g.streams_[call.stream_index].stream);
            error != cudaSuccess)
          return error;
        Pointers with = call;
        with.weights = device;
        with.inputs = device + count;
        with.outputs = const_cast<void* const*>(device + 2 * count);
        return g.unless_refused(with).value_or(cudaErrorNotSupported);
      });
}

}  // namespace itif::device::cuda
