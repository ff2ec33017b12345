#include "device/cuda/gemm/blas.h"

#include "device/cuda/driver/library.h"

namespace itif::device::cuda {
namespace {

// The ABI is stable while the number after .so stays the same.
constexpr const char* kBlas = "libcublas.so.13";
constexpr const char* kBlasLt = "libcublasLt.so.13";  // installed with cuBLAS, which needs it

Result<Blas> load_blas_entry_points() {
  ITIF_ASSIGN(const Library library, Library::open(kBlas, "cuBLAS"));
  Blas blas;
  ITIF_TRY(library.find("cublasCreate_v2", blas.create));
  ITIF_TRY(library.find("cublasDestroy_v2", blas.destroy));
  ITIF_TRY(library.find("cublasSetStream_v2", blas.set_stream));
  ITIF_TRY(library.find("cublasSetWorkspace_v2", blas.set_workspace));
  ITIF_TRY(library.find("cublasSetMathMode", blas.set_math_mode));
  ITIF_TRY(library.find("cublasSetSmCountTarget", blas.set_processors));
  ITIF_TRY(library.find("cublasGetStatusString", blas.status_string));
  ITIF_TRY(library.find("cublasGemmEx", blas.gemm));
  ITIF_TRY(library.find("cublasGemmStridedBatchedEx", blas.gemm_strided_batched));
  ITIF_TRY(library.find("cublasGemmBatchedEx", blas.gemm_batched));
  ITIF_TRY(library.find("cublasGemmGroupedBatchedEx", blas.gemm_grouped_batched));
  ITIF_ASSIGN(const Library lt, Library::open(kBlasLt, "cuBLAS"));
  ITIF_TRY(lt.find("cublasLtGetVersion", blas.lt_version));
  ITIF_TRY(lt.find("cublasLtCreate", blas.lt_create));
  ITIF_TRY(lt.find("cublasLtDestroy", blas.lt_destroy));
  ITIF_TRY(lt.find("cublasLtMatmulDescInit_internal", blas.lt_init_matmul));
  ITIF_TRY(lt.find("cublasLtMatmulDescSetAttribute", blas.lt_set_matmul));
  ITIF_TRY(lt.find("cublasLtMatrixLayoutInit_internal", blas.lt_init_layout));
  ITIF_TRY(lt.find("cublasLtMatmulPreferenceInit_internal", blas.lt_init_preference));
  ITIF_TRY(lt.find("cublasLtMatmulPreferenceSetAttribute", blas.lt_set_preference));
  ITIF_TRY(lt.find("cublasLtMatmulAlgoGetHeuristic", blas.lt_find));
  ITIF_TRY(lt.find("cublasLtMatmulAlgoCheck", blas.lt_check));
  ITIF_TRY(lt.find("cublasLtMatmul", blas.lt_matmul));
  return blas;
}

}  // namespace

Result<const Blas*> load_blas() {
  static const Result<Blas> loaded = load_blas_entry_points();
  if (!loaded) return std::unexpected(loaded.error());
  return &*loaded;
}

}  // namespace itif::device::cuda
