// The driver's contexts. Under MPS, one can be limited to a number of multiprocessors.
#include <cuda.h>

#include <algorithm>
#include <memory>

#include "machine.h"
#include "simt.h"

using simt::Lock;
using simt::runtime;

CUresult cuDeviceGetExecAffinitySupport(int* is_supported, CUexecAffinityType, CUdevice) {
  Lock lock(runtime().mutex);
  const simt::DeviceOptions& device = runtime().device;
  *is_supported = device.has_mps || device.admits_limits_without_mps ? 1 : 0;
  return CUDA_SUCCESS;
}

// The new context becomes the current one, above that of before.
CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams* params, unsigned, CUdevice) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (r.is_faulty) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (params == nullptr || params->numExecAffinityParams != 1 ||
      params->execAffinityParams->type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
    return CUDA_ERROR_INVALID_VALUE;
  const unsigned wanted = params->execAffinityParams->param.smCount.val;
  const auto all = static_cast<unsigned>(r.device.num_multiprocessors);
  if (wanted == 0 || wanted > all) return CUDA_ERROR_INVALID_VALUE;
  if (!r.device.has_mps) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  if (r.num_live() >= r.device.max_mps_contexts || simt::kContextBytes > r.free_bytes())
    return CUDA_ERROR_OUT_OF_MEMORY;
  const unsigned multiple = r.device.mps_multiple;
  simt::Context* const made = r.contexts.emplace_back(std::make_unique<simt::Context>()).get();
  made->number = ++r.counts.contexts_made;
  made->limit =
      r.device.mps_limits ? std::min(all, (wanted + multiple - 1) / multiple * multiple) : all;
  r.contexts_of_thread.push_back(made);
  *context = made;
  return CUDA_SUCCESS;
}

// Its streams must be gone: CUDA does not define what their use does afterwards.
CUresult cuCtxDestroy(CUcontext context) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (!context->is_alive) return CUDA_ERROR_INVALID_CONTEXT;
  for (const auto& stream : r.streams)
    if (stream->context == context) simt::fail("a context is destroyed before its streams");
  context->is_alive = false;
  if (r.current() == context) r.contexts_of_thread.pop_back();
  return r.is_faulty ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* affinity, CUexecAffinityType type) {
  Lock lock(runtime().mutex);
  if (const CUresult error = runtime().check_driver(); error != CUDA_SUCCESS) return error;
  const unsigned limit = runtime().current()->limit;
  affinity->type = type;
  affinity->param.smCount.val =
      limit > 0 ? limit : static_cast<unsigned>(runtime().device.num_multiprocessors);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = runtime().current();
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  Lock lock(runtime().mutex);
  if (context != nullptr && !context->is_alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  runtime().set_current(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
  Lock lock(runtime().mutex);
  if (!context->is_alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  runtime().contexts_of_thread.push_back(context);
  return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  auto& all = runtime().contexts_of_thread;
  if (all.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = all.back();
  all.pop_back();
  return CUDA_SUCCESS;
}
