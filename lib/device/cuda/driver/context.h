// A context of the GPU that is limited to a number of multiprocessors. The process must be a client
// of CUDA's Multi-Process Service (MPS). The driver bounds their number, but does not choose them.
//
// A stream, event, graph or handle of cuBLAS belongs to the context in which it was made. Its calls
// need that context to be current in the calling thread. Events may be waited for in any context.
// Virtual memory, memory pools and portable pinned memory belong to none.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <memory>

#include "base/error.h"

namespace itif::device::cuda {

// Thread-safe.
class LimitedContext {
 public:
  // Leaves the thread's current context as it was. Errors: kUnsupported, there is no MPS server or
  // the driver does not limit contexts; kResourceExhausted; kInternal.
  static Result<std::shared_ptr<const LimitedContext>> make(int ordinal, uint32_t processors);
  // REQUIRES: nothing that belongs to the context is left.
  ~LimitedContext();
  LimitedContext(const LimitedContext&) = delete;
  LimitedContext& operator=(const LimitedContext&) = delete;

  // Multiprocessors; the driver rounds up.
  uint32_t processors() const { return processors_; }
  // Makes it the calling thread's current context, as cudaSetDevice() does with the primary one.
  cudaError_t enter() const noexcept;

 private:
  friend class ContextScope;
  struct Driver {
    decltype(&cuDeviceGetExecAffinitySupport) supports = nullptr;
    decltype(&cuCtxCreate) create = nullptr;
    decltype(&cuCtxDestroy) destroy = nullptr;
    decltype(&cuCtxGetExecAffinity) affinity = nullptr;
    decltype(&cuCtxSetCurrent) set_current = nullptr;
    decltype(&cuCtxPushCurrent) push = nullptr;
    decltype(&cuCtxPopCurrent) pop = nullptr;
  };
  LimitedContext() = default;
  static Result<Driver> find();

  Driver driver_;
  CUcontext context_ = nullptr;
  uint32_t processors_ = 0;
};

// Makes a context current in the calling thread, and at its end the former one.
class ContextScope {
 public:
  // nullptr: changes nothing.
  explicit ContextScope(const LimitedContext* context) noexcept;
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  const LimitedContext* const context_;
  bool is_pushed_ = false;
};

}  // namespace itif::device::cuda
