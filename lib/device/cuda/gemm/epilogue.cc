#include "device/cuda/gemm/epilogue.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "base/check.h"
#include "device/cuda/driver/captures.h"

namespace itif::device::cuda {
namespace {

using kernels::Activation;

// The strictest alignment, in bytes, that tensor cores, vector loads and cuBLASLt's bias need.
constexpr uint32_t kMaxAlignment = 16;

bool is_narrow(const ComputeTypes& types, const GemmShape& shape) {
  return types.activations != DType::kF32 && !shape.f32_out;
}

std::optional<cublasLtEpilogue_t> epilogue_of(const ComputeTypes& types, const GemmShape& shape) {
  switch (shape.activation) {
    case Activation::kNone:
      if (!shape.has_bias) return std::nullopt;
      return CUBLASLT_EPILOGUE_BIAS;
    case Activation::kRelu:
      return shape.has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      if (!is_narrow(types, shape)) return std::nullopt;
      return shape.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::kGelu:
    case Activation::kTanh:
    case Activation::kSilu: break;
  }
  return std::nullopt;
}

// 1, 16, 24, 32, 48, 64, 96, …
uint32_t next_rung(uint32_t rows) {
  if (rows < 16) return 16;
  return (rows & (rows - 1)) == 0 ? rows / 2 * 3 : rows / 3 * 4;
}

bool is_aligned(const void* at, size_t alignment) {
  return reinterpret_cast<uintptr_t>(at) % alignment == 0;
}

}  // namespace

cudaDataType type_of(DType type) {
  switch (type) {
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

bool adds_narrow_bias(const ComputeTypes& types, const GemmShape& shape) {
  return shape.has_bias && is_narrow(types, shape) && epilogue_of(types, shape).has_value();
}

struct EpilogueGemm::Problem {
  cublasLtMatmulDescOpaque_t matmul = {};
  cublasLtMatrixLayoutOpaque_t weight = {}, a = {}, out = {};
};

// Operands are row-major and cuBLASLt is column-major: out = a · Wᵀ is computed as outᵀ = W · aᵀ.
bool EpilogueGemm::describe(const Blas& blas, uint32_t rows, uint32_t processors, const void* bias,
                            Problem& problem) const {
  bool is_good = blas.lt_init_matmul(&problem.matmul, sizeof problem.matmul, CUBLAS_COMPUTE_32F,
                                     CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    is_good = is_good && blas.lt_set_matmul(&problem.matmul, attribute, &value, sizeof value) ==
                             CUBLAS_STATUS_SUCCESS;
  };
  const auto lay_out = [&](cublasLtMatrixLayoutOpaque_t& layout, cudaDataType type, uint32_t height,
                           uint32_t width) {
    is_good = is_good && blas.lt_init_layout(&layout, sizeof layout, type, height, width, height) ==
                             CUBLAS_STATUS_SUCCESS;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, int32_t{CUBLAS_OP_T});
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{epilogue_});
  if (shape_.has_bias) {
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{type_out_});
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  if (processors > 0) set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<int32_t>(processors));
  lay_out(problem.weight, type_weight_, shape_.k, shape_.n);
  lay_out(problem.a, type_a_, shape_.k, rows);
  lay_out(problem.out, type_out_, shape_.n, rows);
  return is_good;
}

uint32_t EpilogueGemm::alignment(size_t row_bytes) {
  return static_cast<uint32_t>(std::min<size_t>(kMaxAlignment, row_bytes & -row_bytes));
}

EpilogueGemm::EpilogueGemm(const Blas& blas, cublasLtHandle_t handle, const ComputeTypes& types,
                           const GemmShape& shape, uint32_t max_rows,
                           std::span<const uint32_t> processors)
    : shape_(shape) {
  const auto epilogue = epilogue_of(types, shape);
  if (!epilogue) return;
  epilogue_ = *epilogue;
  type_weight_ = type_of(types.weights);
  type_a_ = type_of(types.activations);
  const DType out = shape.f32_out ? DType::kF32 : types.activations;
  type_out_ = type_of(out);
  weight_alignment_ = alignment(shape.k * dtype_bytes(types.weights));
  a_alignment_ = alignment(shape.k * dtype_bytes(types.activations));
  out_alignment_ = alignment(shape.n * dtype_bytes(out));
  rungs_.push_back({});
  for (const uint32_t count : processors) rungs_.push_back({.processors = count, .all = {}});
  for (Rungs& rungs : rungs_) {
    uint32_t first = 1;
    for (uint32_t last = 1;; last = next_rung(last)) {
      rungs.all.push_back(choose(blas, handle, first, last, rungs.processors));
      first = last + 1;
      if (last >= max_rows) break;
    }
  }
}

// Returns the best algorithm for max_rows that also supports min_rows.
EpilogueGemm::Rung EpilogueGemm::choose(const Blas& blas, cublasLtHandle_t handle,
                                        uint32_t min_rows, uint32_t max_rows,
                                        uint32_t processors) const {
  Rung rung{.max_rows = max_rows};
  cublasLtMatmulPreferenceOpaque_t preference = {};
  bool is_good = blas.lt_init_preference(&preference, sizeof preference) == CUBLAS_STATUS_SUCCESS;
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    is_good = is_good && blas.lt_set_preference(&preference, attribute, &value, sizeof value) ==
                             CUBLAS_STATUS_SUCCESS;
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kEpilogueWorkspaceBytes});
  // Reducing partial sums in the result's type would round them first.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, weight_alignment_);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_alignment_);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out_alignment_);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out_alignment_);
  // Never read: only its alignment counts.
  const auto* bias = reinterpret_cast<const void*>(uintptr_t{kMaxAlignment});
  Problem largest, smallest;
  is_good = is_good && describe(blas, max_rows, processors, bias, largest) &&
            describe(blas, min_rows, processors, bias, smallest);
  std::array<cublasLtMatmulHeuristicResult_t, 4> found = {};
  int count = 0;
  if (!is_good || blas.lt_find(handle, &largest.matmul, &largest.weight, &largest.a, &largest.out,
                               &largest.out, &preference, static_cast<int>(found.size()),
                               found.data(), &count) != CUBLAS_STATUS_SUCCESS)
    return rung;
  for (const auto& one : std::span(found).first(static_cast<size_t>(std::max(0, count)))) {
    cublasLtMatmulHeuristicResult_t checked = {};
    if (one.state != CUBLAS_STATUS_SUCCESS || one.workspaceSize > kEpilogueWorkspaceBytes ||
        blas.lt_check(handle, &smallest.matmul, &smallest.weight, &smallest.a, &smallest.out,
                      &smallest.out, &one.algo, &checked) != CUBLAS_STATUS_SUCCESS ||
        checked.workspaceSize > kEpilogueWorkspaceBytes)
      continue;
    rung.algo = one.algo;
    rung.is_there = true;
    break;
  }
  return rung;
}

const EpilogueGemm::Rung* EpilogueGemm::rung_of(const Call& call) const {
  auto rungs = std::ranges::find(rungs_, call.processors, &Rungs::processors);
  if (rungs == rungs_.end()) rungs = rungs_.begin();  // any algorithm runs anywhere
  if (rungs == rungs_.end()) return nullptr;
  const auto rung = std::ranges::lower_bound(rungs->all, call.rows, {}, &Rung::max_rows);
  return rung == rungs->all.end() ? nullptr : &*rung;
}

bool EpilogueGemm::runs(const Call& call) const {
  const Rung* const rung = rung_of(call);
  return rung != nullptr && rung->is_there && is_aligned(call.weight, weight_alignment_) &&
         is_aligned(call.a, a_alignment_) && is_aligned(call.out, out_alignment_) &&
         is_aligned(call.bias, kMaxAlignment);
}

cublasStatus_t EpilogueGemm::run(const Blas& blas, cublasLtHandle_t handle, const Call& call,
                                 void* workspace, cudaStream_t stream) const {
  const Rung* const rung = rung_of(call);
  DCHECK(rung != nullptr);
  Problem problem;
  if (!describe(blas, call.rows, call.processors, call.bias, problem))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto multiply = [&](const cublasLtMatmulAlgo_t* algo) {
    return blas.lt_matmul(handle, &problem.matmul, &kOne, call.weight, &problem.weight, call.a,
                          &problem.a, &kZero, call.out, &problem.out, call.out, &problem.out, algo,
                          workspace, kEpilogueWorkspaceBytes, stream);
  };
  const cublasStatus_t made = multiply(&rung->algo);
  if (made != CUBLAS_STATUS_NOT_SUPPORTED && made != CUBLAS_STATUS_INVALID_VALUE) return made;
  // choose() checked only the ends of the rung.
  const Rung own = choose(blas, handle, call.rows, call.rows, call.processors);
  return own.is_there ? multiply(&own.algo) : made;
}

EpilogueGemm Epilogues::prepare(const ComputeTypes& types, const GemmShape& shape,
                                uint32_t max_rows) {
  const auto blas = load_blas();
  const std::lock_guard lock(mutex_);
  if (!blas) return {};
  if (handle_ == nullptr) {
    const std::unique_lock alone(captures());
    if ((*blas)->lt_create(&handle_) != CUBLAS_STATUS_SUCCESS) handle_ = nullptr;
  }
  if (handle_ == nullptr) return {};
  return {**blas, handle_, types, shape, max_rows, processors_};
}

void Epilogues::set_processors(std::vector<uint32_t> processors) {
  const std::lock_guard lock(mutex_);
  processors_ = std::move(processors);
}

void Epilogues::close() noexcept {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) return;
  const std::unique_lock alone(captures());
  (void)(*load_blas())->lt_destroy(handle_);
  handle_ = nullptr;
}

}  // namespace itif::device::cuda
