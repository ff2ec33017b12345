#include "product.h"

#include <cblas.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <atomic>

#include <cstddef>
#include <vector>

namespace simt {

size_t bytes_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}
float load(const void* at, cudaDataType type, size_t i) {
  switch (type) {
    case CUDA_R_16F: return __half2float(static_cast<const __half*>(at)[i]);
    case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16*>(at)[i]);
    default: return static_cast<const float*>(at)[i];
  }
}

void store(void* at, cudaDataType type, size_t i, float value) {
  switch (type) {
    case CUDA_R_16F: static_cast<__half*>(at)[i] = __float2half_rn(value); break;
    case CUDA_R_16BF: static_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16_rn(value); break;
    default: static_cast<float*>(at)[i] = value;
  }
}

namespace {

// Returns rows × columns values, column-major, without the gaps of `ld`.
std::vector<float> widened(const void* at, cudaDataType type, int rows, int columns, int ld) {
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r)
      values[static_cast<size_t>(c) * static_cast<size_t>(rows) + static_cast<size_t>(r)] =
          load(at, type, static_cast<size_t>(c) * static_cast<size_t>(ld) + static_cast<size_t>(r));
  return values;
}

}  // namespace

float rounded(float value, cudaDataType type) {
  alignas(float) std::byte memory[sizeof(float)];
  store(memory, type, 0, value);
  return load(memory, type, 0);
}

void multiply(const Product& p, const void* a, const void* b, void* c) {
  if (p.m == 0 || p.n == 0) return;
  const bool ta = p.trans_a == CUBLAS_OP_T, tb = p.trans_b == CUBLAS_OP_T;
  const int rows_a = ta ? p.k : p.m, columns_a = ta ? p.m : p.k;
  const int rows_b = tb ? p.n : p.k, columns_b = tb ? p.k : p.n;
  const auto wide_a = widened(a, p.type_a, rows_a, columns_a, p.lda);
  const auto wide_b = widened(b, p.type_b, rows_b, columns_b, p.ldb);
  auto wide_c = p.beta == 0
                    ? std::vector<float>(static_cast<size_t>(p.m) * static_cast<size_t>(p.n))
                    : widened(c, p.type_c, p.m, p.n, p.ldc);
  const auto add = [&](int begin, int end, float beta) {
    const auto at = [begin](const std::vector<float>& values, bool along_rows, int rows) {
      return values.data() +
             static_cast<size_t>(begin) * (along_rows ? 1u : static_cast<size_t>(rows));
    };
    cblas_sgemm(CblasColMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, p.m,
                p.n, end - begin, p.alpha, at(wide_a, ta, rows_a), rows_a, at(wide_b, !tb, rows_b),
                rows_b, beta, wide_c.data(), p.m);
  };
  if (p.is_reduced_in_result_type && p.type_c != CUDA_R_32F) {
    constexpr int kParts = 4;
    for (int part = 0; part < kParts; ++part) {
      add(p.k * part / kParts, p.k * (part + 1) / kParts, part == 0 ? p.beta : 1);
      for (float& value : wide_c) value = rounded(value, p.type_c);
    }
  } else {
    add(0, p.k, p.beta);
  }
  for (int column = 0; column < p.n; ++column)
    for (int row = 0; row < p.m; ++row) {
      const float value =
          wide_c[static_cast<size_t>(column) * static_cast<size_t>(p.m) + static_cast<size_t>(row)];
      store(c, p.type_c,
            static_cast<size_t>(column) * static_cast<size_t>(p.ldc) + static_cast<size_t>(row),
            p.epilogue ? p.epilogue(row, value) : value);
    }
}

namespace {
std::atomic<unsigned> refused_calls = 0;  // a bit for each kind
std::atomic<cublasStatus_t> status_of_refused = CUBLAS_STATUS_NOT_SUPPORTED;
std::atomic<uint64_t> num_refused = 0;

unsigned bit(Call call) {
  return 1u << static_cast<unsigned>(call);
}
}  // namespace

Refused::Refused(std::initializer_list<Call> calls, cublasStatus_t status) {
  num_refused = 0;
  status_of_refused = status;
  for (const Call call : calls) refused_calls |= bit(call);
}
Refused::~Refused() {
  refused_calls = 0;
}
uint64_t Refused::count() const {
  return num_refused;
}
cublasStatus_t refusal(Call call) {
  if ((refused_calls & bit(call)) == 0) return CUBLAS_STATUS_SUCCESS;
  ++num_refused;
  return status_of_refused;
}

bool is_supported(const Product& p, bool is_grouped) {
  if (p.m < 0 || p.n < 0 || p.k <= 0) return false;
  if (p.lda < (p.trans_a == CUBLAS_OP_T ? p.k : p.m)) return false;
  if (p.ldb < (p.trans_b == CUBLAS_OP_T ? p.n : p.k) || p.ldc < p.m) return false;
  if (p.type_a != p.type_b) return false;
  // The grouped kernels of 16-bit operands want sizes of 16 bytes.
  if (is_grouped && p.type_a != CUDA_R_32F && (p.m % 8 != 0 || p.k % 8 != 0)) return false;
  return p.type_c == p.type_a || (p.type_c == CUDA_R_32F && !is_grouped);
}

}  // namespace simt
