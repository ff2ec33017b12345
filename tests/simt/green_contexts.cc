// The driver's green contexts: partitions of the multiprocessors, and streams on them.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>
#include <memory>
#include <utility>

#include "machine.h"
#include "simt.h"

using simt::Lock;
using simt::Multiprocessors;
using simt::runtime;

namespace {

// Kept in the part of a resource that its users do not read.
struct Inside {
  Multiprocessors all;
  uint64_t split = 0;  // the call that made it; 0: the whole device
};
static_assert(sizeof(Inside) <= sizeof(CUdevResource::_internal_padding));

Inside inside(const CUdevResource& resource) {
  Inside made;
  std::memcpy(&made, resource._internal_padding, sizeof made);
  return made;
}
CUdevResource resource_of(const Multiprocessors& all, uint64_t split) {
  CUdevResource made{};
  if (all.none()) return made;
  const Inside in{all, split};
  std::memcpy(made._internal_padding, &in, sizeof in);
  made.type = CU_DEV_RESOURCE_TYPE_SM;
  made.sm = {static_cast<unsigned>(all.count()), runtime().device.least_partition,
             runtime().device.least_partition};
  return made;
}

}  // namespace

namespace simt {

struct Resources {
  Multiprocessors all;
};

}  // namespace simt

CUresult cuDeviceGetDevResource(CUdevice, CUdevResource* resource, CUdevResourceType type) {
  Lock lock(runtime().mutex);
  if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
  Multiprocessors all;
  for (int i = 0; i < runtime().device.num_multiprocessors; ++i) all.set(static_cast<size_t>(i));
  *resource = resource_of(all, 0);
  return CUDA_SUCCESS;
}

// Makes partitions of `least`, rounded up to what the device allows, that are scattered as a GPU's
// are.
CUresult cuDevSmResourceSplitByCount(CUdevResource* result, unsigned* count,
                                     const CUdevResource* input, CUdevResource* remaining, unsigned,
                                     unsigned least) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (input->type != CU_DEV_RESOURCE_TYPE_SM || least > input->sm.smCount)
    return CUDA_ERROR_INVALID_VALUE;
  if (inside(*input).split != 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  const unsigned step = r.device.least_partition;
  const unsigned size = std::max(step, (least + step - 1) / step * step);
  const unsigned most = input->sm.smCount / size;
  if (result == nullptr) {
    *count = most;
    return CUDA_SUCCESS;
  }
  *count = std::min(*count, most);
  const uint64_t split = ++r.num_splits;
  Multiprocessors left = inside(*input).all;
  for (unsigned i = 0; i < *count; ++i) {
    Multiprocessors part;
    for (size_t at = i; part.count() < size; at += most) {
      part.set(at);
      left.reset(at);
    }
    result[i] = resource_of(part, split);
  }
  if (remaining != nullptr) *remaining = resource_of(left, split);
  return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc* description, CUdevResource* resources,
                                   unsigned count) {
  Lock lock(runtime().mutex);
  if (count == 0) return CUDA_ERROR_INVALID_VALUE;
  Multiprocessors all;
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (inside(resources[i]).split != inside(resources[0]).split ||
        (all & inside(resources[i]).all).any())
      return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    all |= inside(resources[i]).all;
  }
  // The driver has no call to free a description.
  *description = runtime().descriptions.emplace_back(new simt::Resources{all}).get();
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx* context, CUdevResourceDesc description, CUdevice,
                          unsigned flags) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  if (r.is_faulty) return CUDA_ERROR_ILLEGAL_ADDRESS;
  if (r.green_contexts.size() >= r.device.max_green_contexts) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = r.green_contexts.emplace_back(new simt::GreenContext{description->all}).get();
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (r.is_faulty) return CUDA_ERROR_ILLEGAL_ADDRESS;
  for (const auto& stream : r.streams)
    if (stream->green == context) simt::fail("a green context is destroyed before its streams");
  const size_t erased =
      std::erase_if(r.green_contexts, [&](const auto& one) { return one.get() == context; });
  return erased == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;  // by a reset
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx context, unsigned flags,
                                int priority) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if ((flags & CU_STREAM_NON_BLOCKING) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (r.is_faulty) return CUDA_ERROR_ILLEGAL_ADDRESS;
  *stream = r.streams.emplace_back(std::make_unique<simt::Stream>(r.enter())).get();
  (*stream)->green = context;
  (*stream)->place.multiprocessors = context->all;
  (*stream)->place.priority = priority;
  return CUDA_SUCCESS;
}

namespace simt {

std::vector<LaunchedOn> launched_on() {
  Lock lock(runtime().mutex);
  return runtime().launched_on;
}

void free_green_contexts() {
  auto& r = runtime();
  for (auto& stream : r.streams) stream->green = nullptr;
  r.green_contexts.clear();
}

}  // namespace simt
