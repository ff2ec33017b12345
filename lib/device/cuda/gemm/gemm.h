// GEMMs of tenants' rows through cuBLAS. Activations and weights are row-major and cuBLAS is
// column-major, so out = a · Wᵀ is computed as outᵀ = W · aᵀ.
//
// A schedule divides the ranges into calls (gemm_calls.h), which run on several streams that join
// before the next launch. A call of one range adds bias and activation in an epilogue where
// possible (epilogue.h). A call of several ranges is:
// - Strided, for many rows, if ranges are equally long and their slots equally far apart. It needs
//   no pointers.
// - Pointer-batched, if ranges are equally long.
// - Grouped otherwise.
//
// If cuBLAS refuses a call, simpler ones take its place (refusals.h), in that batch and from then
// on.
//
// cuBLAS loads its kernels at their first use. Before a capture, each kind of call runs once on
// scratch memory (gemm_loading.cc).
//
// The batch's plan memory holds the pointers, so that one graph serves all tenants; a single range
// of few rows uses pointers for the same reason. One launch then adds bias and activation for all
// tenants (ITIF: model weights rotation), because no epilogue of such a call finds each row's
// tenant.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "device/cuda/gemm/blas.h"
#include "device/cuda/gemm/blas_handles.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/cuda/gemm/gemm_calls.h"
#include "device/cuda/gemm/gemm_trials.h"
#include "device/cuda/gemm/refusals.h"
#include "device/cuda/gemm/scratch_weights.h"
#include "device/cuda/graph/graphs.h"
#include "device/cuda/memory/plan_memory.h"
#include "device/cuda/slices/slices.h"
#include "device/device.h"

namespace itif::device::cuda {

// The result of preparing a shape. cuBLAS needs no preparation without an epilogue, but a GEMM of
// an unprepared shape is still an error.
struct PreparedShape final : kernels::PreparedGemm {
  PreparedShape(const GemmShape& shape, EpilogueGemm with_epilogue,
                std::shared_ptr<const Buffer> scratch)
      : shape(shape), with_epilogue(std::move(with_epilogue)), scratch(std::move(scratch)) {}
  const GemmShape shape;
  const EpilogueGemm with_epilogue;
  const std::shared_ptr<const Buffer> scratch;  // takes the place of weights and bias
};

class Gemms {
 public:
  // Errors: kUnsupported, naming types that cuBLAS does not multiply.
  static Status check_types(const ComputeTypes& types);
  // Prepares GEMMs of up to max_rows rows, for all streams of a device. Errors: as
  // GemmTrials::try_out().
  static Result<GemmHandle> prepare(GemmTrials& trials, Epilogues& epilogues,
                                    ScratchWeights& scratch, const ComputeTypes& types,
                                    const GemmShape& shape, uint32_t max_rows);
  // For launches on `streams`, by the handles of their context, which outlive their use. Errors:
  // kResourceExhausted, kInternal.
  static Result<std::unique_ptr<Gemms>> make(const ComputeTypes& types,
                                             const kernels::cuda::Processors& processors,
                                             const SliceStreams& streams,
                                             const BlasHandles& handles,
                                             std::shared_ptr<Budget> budget);
  // Makes the next launches on other streams, for as many multiprocessors as these have. REQUIRES:
  // no launch is logged; their context is current. Errors: kInternal.
  Status use_streams(const SliceStreams& streams, const BlasHandles& handles);
  // Loads the code that a segment's launches need on slices of these numbers of multiprocessors
  // (0: all), which share the context: cuBLAS may choose other kernels for each. A load while
  // groups compute would stop all of them until their running batches end. Errors: kInternal.
  Status load(const GraphSegment& segment, std::span<const uint32_t> processors);
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  // Adds bias and activation only if has_epilogue(). REQUIRES: none writes what another reads or
  // writes.
  Status run(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
             std::span<const kernels::GroupedGemm> all);
  bool has_epilogue(const kernels::GroupedGemm& args) const;
  // Products of activations, for attention in thesis fusion mode.
  void run(const kernels::cuda::Launcher& launch, LaunchKey& key, const kernels::BatchedGemm& args);
  // Returns the error of a plain GEMM that cuBLAS has refused since the last call. Errors:
  // kUnsupported, naming its size: the batch's results are missing, but the device works.
  Status take_refused() { return std::exchange(refused_, {}); }
  // Number of kinds of calls that cuBLAS has refused, and that simpler ones have replaced.
  uint64_t num_refusals() const { return calls_.refusals().count(); }
  // Call once all logged launches have been made and their key is cleared.
  void clear() noexcept;

 private:
  // A stream and a cuBLAS handle of other owners, and a workspace. The first is the launches'.
  struct BlasStream {
    cublasHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
    std::unique_ptr<Buffer> workspace;
    const StreamEvent* reached = nullptr;
  };
  // The library calls. Each is made from its object alone, which is also its part of the key of a
  // graph segment: see add_call().
  //
  // One GEMM, or `count` of them at constant strides. Sizes and strides are in elements.
  struct Strided {
    Gemms* gemms = nullptr;
    size_t stream_index = 0;
    cublasOperation_t trans_w = CUBLAS_OP_T;
    int m = 0, n = 0, k = 0;
    const void *w = nullptr, *a = nullptr;
    void* out = nullptr;
    int ldw = 0;
    long long stride_w = 0, stride_a = 0, stride_out = 0;
    int count = 1;
    cudaDataType type_w = CUDA_R_32F, type_out = CUDA_R_32F;
    const void* scratch = nullptr;  // to read for weights before there are any; nullptr: not needed
    CallKind kind;                  // of several GEMMs
  };
  // Arguments of a grouped call, by range. They must last until the call is made, and as long as a
  // graph of it: cuBLAS does not say whether a replay reads them again.
  struct Groups {
    std::vector<cublasOperation_t> trans_w, trans_a;
    std::vector<int> m, n, k, ldw, lda, ldc, sizes;
    std::vector<float> one, zero;
  };
  struct Pointers {
    Gemms* gemms = nullptr;
    size_t stream_index = 0;
    int m = 0, n = 0, k = 0;         // of every GEMM; not used if `groups` is set
    const Groups* groups = nullptr;  // sizes by range
    const void *const *weights = nullptr, *const *inputs = nullptr;
    void* const* outputs = nullptr;
    int count = 0;
    cudaDataType type_out = CUDA_R_32F;
    const void *scratch = nullptr, *input = nullptr;  // of every GEMM that load_pointers() makes
    void* output = nullptr;
    size_t first_alone = 0;  // index in alone_ of the first single GEMM of the same products
    CallKind kind;
  };
  struct WithEpilogue {
    Gemms* gemms = nullptr;
    size_t stream_index = 0;
    const EpilogueGemm* gemm = nullptr;
    EpilogueGemm::Call call;
    const void* scratch = nullptr;
    Strided plain;                   // the same without epilogue,
    kernels::BiasActivation behind;  // and then this; without ranges
    CallKind kind;
  };
  struct Join {
    Gemms* gemms = nullptr;
    size_t num_streams = 0;
  };

  Gemms(const ComputeTypes& types, const kernels::cuda::Processors& processors, const Blas& blas);
  Status bind(BlasStream& blas_stream);
  Status use_processors(uint32_t count);  // 0: all
  Strided single(const kernels::GroupedGemm& args, const kernels::RowRange& range);
  EpilogueGemm::Call with_epilogue(const kernels::GroupedGemm& args,
                                   const kernels::RowRange& range) const;
  template <class Call>
  static void add_call(const kernels::cuda::Launcher& launch, LaunchKey& key,
                       kernels::cuda::LaunchLog::Make<Call> make, const Call& call,
                       kernels::cuda::LaunchLog::Make<Call> load = nullptr);
  static void add_to_key(LaunchKey& key, const Pointers& call);
  WithEpilogue single_with_epilogue(const GemmCalls::Call& divided);
  void add_strided(const kernels::cuda::Launcher& launch, LaunchKey& key,
                   const GemmCalls::Call& divided);
  Status add_pointers(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
                      const GemmCalls::Call& divided);
  std::shared_ptr<Groups> make_groups(std::span<const kernels::RowRange> ranges, int m, int k);
  const std::byte* input(const kernels::GroupedGemm& args, const kernels::RowRange& range) const;
  std::byte* output(const kernels::GroupedGemm& args, const kernels::RowRange& range) const;
  cudaDataType type_of_output(const kernels::GroupedGemm& args) const;

  cudaError_t as_launch(cublasStatus_t status);
  cudaError_t make_single(const Strided& call);
  cublasStatus_t call(const Strided& call);
  cublasStatus_t call(const WithEpilogue& call);
  cublasStatus_t call(const Pointers& call);
  template <class Call>
  std::optional<cudaError_t> unless_refused(const Call& call);
  static cudaError_t make_strided(const Strided& call, cudaStream_t stream);
  static cudaError_t make_with_epilogue(const WithEpilogue& call, cudaStream_t stream);
  static cudaError_t make_pointers(const Pointers& call, cudaStream_t stream);
  template <class Make>
  cudaError_t make_simpler(size_t stream_index, const Make& make);
  Strided one_of(const Strided& call, int index) const;
  cudaError_t make_sequentially(const Strided& call);
  cudaError_t make_sequentially(const Pointers& call);
  cudaError_t make_without_epilogue(const WithEpilogue& call);
  cudaError_t make_with_kernel(const WithEpilogue& call);
  static cudaError_t load_strided(const Strided& call, cudaStream_t stream);
  static cudaError_t load_with_epilogue(const WithEpilogue& call, cudaStream_t stream);
  static cudaError_t load_pointers(const Pointers& call, cudaStream_t stream);
  // Numbers that distinguish calls for which cuBLAS may use different kernels.
  using Kind = std::vector<int64_t>;
  template <class Call>
  cudaError_t load_once(const Kind& kind, size_t stream_index, const Call& call);
  static cudaError_t fork(const Join& call, cudaStream_t stream);
  static cudaError_t join(const Join& call, cudaStream_t stream);

  Refusals& refusals() { return calls_.refusals(); }

  const ComputeTypes types_;
  const kernels::cuda::Processors processors_;
  const LimitedContext* context_ = nullptr;  // as SliceStreams has them
  uint32_t slice_processors_ = 0;
  GemmCalls calls_;  // of one launch
  const cudaDataType type_weights_, type_activations_;
  const Blas& blas_;
  std::array<BlasStream, GemmCalls::kStreams> streams_;
  std::set<Kind> loaded_;
  std::unique_ptr<Buffer> scratch_pointers_;  // [3][kMaxBucketRows], of load_pointers()
  Pinned host_scratch_pointers_;
  cublasLtHandle_t lt_ = nullptr;                 // of another owner
  cublasStatus_t fault_ = CUBLAS_STATUS_SUCCESS;  // the last one logged
  Status refused_;
  std::vector<std::shared_ptr<Groups>> groups_;  // kept from batch to batch; in no graph
  size_t num_groups_ = 0;                        // in use
  std::vector<Strided> alone_;                   // of the logged calls by pointers, range by range
  std::vector<const void*> weights_, inputs_;
  std::vector<void*> outputs_;
};

}  // namespace itif::device::cuda
