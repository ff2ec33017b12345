#include "device/cuda/blas.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace itif::device::cuda {
namespace {

// Its programming interface is this version's as long as the number behind .so is.
constexpr const char* kLibrary = "libcublas.so.13";
// Where the toolkit's packages put it, which not every loader's configuration knows.
constexpr const char* kFallback = "/usr/local/cuda/lib64/libcublas.so.13";

template <class Function>
Status find(void* library, const char* name, Function& function) {
  void* const found = dlsym(library, name);
  if (found == nullptr)
    return fail(Code::kUnsupported, fmt::format("{} has no {}: it is too old", kLibrary, name));
  function = reinterpret_cast<Function>(found);
  return {};
}

Result<Blas> load() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = dlerror();
    library = dlopen(kFallback, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail(Code::kUnsupported, "cuBLAS cannot be loaded: " + why);
  }
  Blas blas;
  ITIF_TRY(find(library, "cublasCreate_v2", blas.create));
  ITIF_TRY(find(library, "cublasDestroy_v2", blas.destroy));
  ITIF_TRY(find(library, "cublasSetStream_v2", blas.set_stream));
  ITIF_TRY(find(library, "cublasSetWorkspace_v2", blas.set_workspace));
  ITIF_TRY(find(library, "cublasGetStatusString", blas.status_string));
  ITIF_TRY(find(library, "cublasGemmEx", blas.gemm));
  ITIF_TRY(find(library, "cublasGemmStridedBatchedEx", blas.gemm_strided_batched));
  ITIF_TRY(find(library, "cublasGemmBatchedEx", blas.gemm_batched));
  ITIF_TRY(find(library, "cublasGemmGroupedBatchedEx", blas.gemm_grouped_batched));
  return blas;
}

}  // namespace

Result<const Blas*> load_blas() {
  static const Result<Blas> loaded = load();
  if (!loaded) return std::unexpected(loaded.error());
  return &*loaded;
}

}  // namespace itif::device::cuda
