// Finds the driver's functions by name.
#include <cuda.h>
#include <cuda_runtime.h>

#include <map>
#include <string_view>

#include "machine.h"

namespace {

template <class Function>
std::pair<const std::string_view, void*> named(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string_view, void*> all = {
      named("cuCtxCreate", cuCtxCreate),
      named("cuCtxDestroy", cuCtxDestroy),
      named("cuCtxGetCurrent", cuCtxGetCurrent),
      named("cuCtxGetExecAffinity", cuCtxGetExecAffinity),
      named("cuCtxPopCurrent", cuCtxPopCurrent),
      named("cuCtxPushCurrent", cuCtxPushCurrent),
      named("cuCtxSetCurrent", cuCtxSetCurrent),
      named("cuDevResourceGenerateDesc", cuDevResourceGenerateDesc),
      named("cuDevSmResourceSplitByCount", cuDevSmResourceSplitByCount),
      named("cuDeviceGetAttribute", cuDeviceGetAttribute),
      named("cuDeviceGetDevResource", cuDeviceGetDevResource),
      named("cuDeviceGetExecAffinitySupport", cuDeviceGetExecAffinitySupport),
      named("cuGreenCtxCreate", cuGreenCtxCreate),
      named("cuGreenCtxDestroy", cuGreenCtxDestroy),
      named("cuGreenCtxStreamCreate", cuGreenCtxStreamCreate),
      named("cuMemAddressFree", cuMemAddressFree),
      named("cuMemAddressReserve", cuMemAddressReserve),
      named("cuMemCreate", cuMemCreate),
      named("cuMemGetAllocationGranularity", cuMemGetAllocationGranularity),
      named("cuMemMap", cuMemMap),
      named("cuMemRelease", cuMemRelease),
      named("cuMemSetAccess", cuMemSetAccess),
      named("cuMemUnmap", cuMemUnmap),
  };
  const auto it = all.find(symbol);
  const bool is_green = std::string_view(symbol).starts_with("cuGreenCtx");
  *function = it == all.end() || (is_green && !simt::runtime().device.has_green_contexts)
                  ? nullptr
                  : it->second;
  if (result != nullptr)
    *result =
        *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
