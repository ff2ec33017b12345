// The part of cuBLASLt that the CUDA device calls. An algorithm fits the problem that it was found
// for, with as many columns or fewer, at addresses aligned as stated then. For one number of
// columns, kFewerThanRuns below the largest, cublasLtMatmul() refuses it.
#include <cblas.h>
#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "machine.h"
#include "product.h"

namespace simt {

class BlasLt {
 public:
  const Context* context = current_context();
};

namespace {

constexpr uint32_t kMagic = 0x17f17f;  // marks initialised objects
constexpr size_t kWorkspaceBytes = 64 << 10;
constexpr uint32_t kMinAlignment = 4;  // what the kernels for 16 bits need
constexpr uint32_t kFewerThanRuns = 3;

struct Matmul {
  uint32_t magic = kMagic;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  int32_t trans_a = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = -1;  // -1: the result's type
  const void* bias = nullptr;
  int32_t processors = 0;
};
struct Layout {
  uint32_t magic = kMagic;
  cudaDataType type = CUDA_R_32F;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  bool operator==(const Layout&) const = default;
};
struct Preference {
  uint32_t magic = kMagic;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint64_t workspace_bytes = 0;
  uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
};
struct Algo {
  uint32_t magic = kMagic;
  uint32_t epilogue = 0;
  uint32_t m = 0, k = 0, max_n = 0;
  uint8_t type = 0, type_d = 0;
  bool rounds_parts = false;  // rounds partial sums to the result's type, before the epilogue
  uint16_t alignment_a = 0, alignment_b = 0, alignment_d = 0, alignment_bias = 0;
  uint64_t workspace_bytes = 0;
};

template <class T, class Opaque>
void put_into(Opaque& opaque, const T& value) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  std::memcpy(&opaque, &value, sizeof value);
}
template <class T, class Opaque>
T of(const Opaque* opaque) {
  T value;
  value.magic = 0;
  if (opaque != nullptr) std::memcpy(static_cast<void*>(&value), opaque, sizeof value);
  return value;
}

uint16_t alignment_of(const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  return static_cast<uint16_t>(std::min<uintptr_t>(256, address & -address));
}

struct Problem {
  Matmul matmul;
  Layout a, b, d;
  bool has_bias = false;
  uint32_t m() const { return static_cast<uint32_t>(d.rows); }
  uint32_t n() const { return static_cast<uint32_t>(d.columns); }
  uint32_t k() const { return static_cast<uint32_t>(b.rows); }
};

// Returns the problem, or nullopt if cuBLASLt's table of types or an epilogue's conditions exclude
// it.
std::optional<Problem> problem_of(cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
                                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                  cublasLtMatrixLayout_t d) {
  Problem p{
      .matmul = of<Matmul>(matmul), .a = of<Layout>(a), .b = of<Layout>(b), .d = of<Layout>(d)};
  for (const uint32_t magic : {p.matmul.magic, p.a.magic, p.b.magic, p.d.magic})
    if (magic != kMagic) return std::nullopt;
  if (of<Layout>(c) != p.d || p.matmul.scale != CUDA_R_32F ||
      p.matmul.compute != CUBLAS_COMPUTE_32F || p.matmul.trans_a != CUBLAS_OP_T)
    return std::nullopt;
  if (p.a.type != p.b.type || (p.d.type != p.a.type && p.d.type != CUDA_R_32F)) return std::nullopt;
  if (p.a.rows != p.b.rows || p.a.columns != p.d.rows || p.b.columns != p.d.columns || p.m() == 0 ||
      p.n() == 0 || p.k() == 0)
    return std::nullopt;
  for (const Layout& layout : {p.a, p.b, p.d})
    if (layout.ld < static_cast<int64_t>(layout.rows)) return std::nullopt;
  switch (p.matmul.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_GELU: break;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS: p.has_bias = true; break;
    default: return std::nullopt;
  }
  if (p.has_bias &&
      (p.matmul.bias == nullptr || (p.matmul.bias_type != -1 && p.matmul.bias_type != p.d.type)))
    return std::nullopt;
  return p;
}

bool fits(const Algo& algo, const Problem& p) {
  return algo.magic == kMagic && algo.epilogue == p.matmul.epilogue && algo.m == p.m() &&
         algo.k == p.k() && p.n() <= algo.max_n && algo.type == p.a.type && algo.type_d == p.d.type;
}

float with_epilogue(const Problem& p, int row, float value) {
  if (p.has_bias) value += load(p.matmul.bias, p.d.type, static_cast<size_t>(row));
  switch (p.matmul.epilogue) {
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS: return std::fmax(value, 0.0f);
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return 0.5f * value *
             (1.0f + std::tanh(0.79788456f * (value + 0.044715f * value * value * value)));
    default: return value;
  }
}

template <class T, class Opaque, class Set>
cublasStatus_t change(Opaque* opaque, const void* value, const Set& set) {
  T now = of<T>(opaque);
  if (now.magic != kMagic || value == nullptr || !set(now)) return CUBLAS_STATUS_INVALID_VALUE;
  put_into(*opaque, now);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
bool assign(T& to, const void* value, size_t size) {
  if (size == sizeof to) std::memcpy(&to, value, size);
  return size == sizeof to;
}
template <class T, class Opaque>
cublasStatus_t begin(Opaque* opaque, size_t size, const T& value) {
  if (size < sizeof *opaque) return CUBLAS_STATUS_ALLOC_FAILED;
  put_into(*opaque, value);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simt

using simt::Algo;
using simt::Problem;

size_t cublasLtGetVersion() {
  return 130100;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (simt::wait_for_device() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  openblas_set_num_threads(1);  // the tests run in parallel
  *handle = new simt::BlasLt;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (handle->context != simt::current_context()) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return simt::wait_for_device() == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                : CUBLAS_STATUS_EXECUTION_FAILED;
}
cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t matmul, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  return simt::begin(matmul, size, simt::Matmul{.compute = compute, .scale = scale});
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmul,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size) {
  return simt::change<simt::Matmul>(matmul, value, [&](simt::Matmul& m) {
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA: return simt::assign(m.trans_a, value, size);
      case CUBLASLT_MATMUL_DESC_EPILOGUE: return simt::assign(m.epilogue, value, size);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return simt::assign(m.bias, value, size);
      case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return simt::assign(m.bias_type, value, size);
      case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return simt::assign(m.processors, value, size);
    }
    return false;
  });
}
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t cols,
                                                 int64_t ld) {
  return simt::begin(layout, size,
                     simt::Layout{.type = type, .rows = rows, .columns = cols, .ld = ld});
}
cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t size) {
  return simt::begin(preference, size, simt::Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t size) {
  return simt::change<simt::Preference>(preference, value, [&](simt::Preference& p) {
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return simt::assign(p.workspace_bytes, value, size);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return simt::assign(p.schemes, value, size);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return simt::assign(p.alignment_a, value, size);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return simt::assign(p.alignment_b, value, size);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return simt::assign(p.alignment_c, value, size);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return simt::assign(p.alignment_d, value, size);
    }
    return false;
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t matmul,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  *count = 0;
  const auto p = simt::problem_of(matmul, a, b, c, d);
  const auto wish = simt::of<simt::Preference>(preference);
  if (!p || wish.magic != simt::kMagic || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (std::min({wish.alignment_a, wish.alignment_b, wish.alignment_d}) < simt::kMinAlignment ||
      wish.workspace_bytes < simt::kWorkspaceBytes)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const Algo algo{.epilogue = p->matmul.epilogue,
                  .m = p->m(),
                  .k = p->k(),
                  .max_n = p->n(),
                  .type = static_cast<uint8_t>(p->a.type),
                  .type_d = static_cast<uint8_t>(p->d.type),
                  .rounds_parts = (wish.schemes & (CUBLASLT_REDUCTION_SCHEME_INPLACE |
                                                   CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0,
                  .alignment_a = static_cast<uint16_t>(wish.alignment_a),
                  .alignment_b = static_cast<uint16_t>(wish.alignment_b),
                  .alignment_d = static_cast<uint16_t>(wish.alignment_d),
                  .alignment_bias = p->has_bias ? simt::alignment_of(p->matmul.bias) : uint16_t{1},
                  .workspace_bytes = simt::kWorkspaceBytes};
  results[0] = {};
  results[0].workspaceSize = algo.workspace_bytes;
  simt::put_into(results[0].algo, algo);
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t matmul,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const auto p = simt::problem_of(matmul, a, b, c, d);
  const auto with = simt::of<Algo>(algo);
  if (!p || !simt::fits(with, *p)) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = with.workspace_bytes;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                              const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (handle->context != simt::current_context()) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto p = simt::problem_of(matmul, layout_a, layout_b, layout_c, layout_d);
  const auto with = simt::of<Algo>(algo);
  if (!p || !simt::fits(with, *p) || c != d || *static_cast<const float*>(beta) != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto refused = simt::refusal(simt::Call::kWithEpilogue);
      refused != CUBLAS_STATUS_SUCCESS)
    return refused;
  if (p->n() + simt::kFewerThanRuns == with.max_n) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (simt::alignment_of(a) < with.alignment_a || simt::alignment_of(b) < with.alignment_b ||
      simt::alignment_of(d) < with.alignment_d ||
      (p->has_bias && simt::alignment_of(p->matmul.bias) < with.alignment_bias))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  {
    const simt::Lock lock(simt::runtime().mutex);
    if (workspace_bytes < with.workspace_bytes || simt::alignment_of(workspace) < 256 ||
        !simt::runtime().is_device(workspace, workspace_bytes))
      return CUBLAS_STATUS_INVALID_VALUE;
    ++simt::runtime().counts.epilogues;
  }
  simt::Product product{.trans_a = CUBLAS_OP_T,
                        .m = static_cast<int>(p->m()),
                        .n = static_cast<int>(p->n()),
                        .k = static_cast<int>(p->k()),
                        .alpha = *static_cast<const float*>(alpha),
                        .type_a = p->a.type,
                        .type_b = p->b.type,
                        .type_c = p->d.type,
                        .lda = static_cast<int>(p->a.ld),
                        .ldb = static_cast<int>(p->b.ld),
                        .ldc = static_cast<int>(p->d.ld)};
  product.epilogue = [p = *p, with](int row, float value) {
    if (with.rounds_parts) value = simt::rounded(value, p.d.type);
    return simt::with_epilogue(p, row, value);
  };
  const cudaError_t error = simt::enqueue_work(stream,
                                               {simt::kBlasLt, p->matmul.epilogue, p->m(), p->n(),
                                                p->k(), p->a.type, p->d.type, p->matmul.processors},
                                               [=, product = std::move(product)] {
                                                 std::memset(workspace, 0xFF, with.workspace_bytes);
                                                 simt::multiply(product, a, b, d);
                                               });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
