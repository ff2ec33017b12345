#include "device/cuda/driver/context.h"

#include <fmt/format.h>

#include "device/cuda/driver/entry_point.h"
#include "device/cuda/driver/error.h"

namespace itif::device::cuda {
namespace {

constexpr unsigned kSince = 13000;  // the interface that this file is compiled against
constexpr const char* kNoContext = "no context of limited multiprocessors can be made";
constexpr const char* kNoServer =
    "this process is no client of an MPS server; start `nvidia-cuda-mps-control -d`, then itifd "
    "with the same CUDA_MPS_PIPE_DIRECTORY";

}  // namespace

Result<LimitedContext::Driver> LimitedContext::find() {
  Driver driver;
  ITIF_TRY(find_entry_point("cuDeviceGetExecAffinitySupport", kSince, driver.supports));
  ITIF_TRY(find_entry_point("cuCtxCreate", kSince, driver.create));
  ITIF_TRY(find_entry_point("cuCtxDestroy", kSince, driver.destroy));
  ITIF_TRY(find_entry_point("cuCtxGetExecAffinity", kSince, driver.affinity));
  ITIF_TRY(find_entry_point("cuCtxSetCurrent", kSince, driver.set_current));
  ITIF_TRY(find_entry_point("cuCtxPushCurrent", kSince, driver.push));
  ITIF_TRY(find_entry_point("cuCtxPopCurrent", kSince, driver.pop));
  return driver;
}

Result<std::shared_ptr<const LimitedContext>> LimitedContext::make(int ordinal,
                                                                   uint32_t processors) {
  ITIF_ASSIGN(const Driver driver, find());
  int is_supported = 0;
  ITIF_TRY(check(driver.supports(&is_supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, ordinal),
                 "the GPU does not tell if its multiprocessors can be limited"));
  if (is_supported == 0) return fail(Code::kUnsupported, kNoServer);
  CUexecAffinityParam limit{};
  limit.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
  limit.param.smCount.val = processors;
  CUctxCreateParams params{};
  params.execAffinityParams = &limit;
  params.numExecAffinityParams = 1;
  std::shared_ptr<LimitedContext> made(new LimitedContext);
  made->driver_ = driver;
  const CUresult created =
      driver.create(&made->context_, &params, CU_CTX_SCHED_BLOCKING_SYNC, ordinal);
  if (created == CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY) return fail(Code::kUnsupported, kNoServer);
  ITIF_TRY(check(created, kNoContext));
  // It is current now.
  CUexecAffinityParam limited{};
  const CUresult told = driver.affinity(&limited, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
  CUcontext popped = nullptr;
  (void)driver.pop(&popped);
  ITIF_TRY(check(told, kNoContext));
  made->processors_ = limited.param.smCount.val;
  return made;
}

LimitedContext::~LimitedContext() {
  if (context_ != nullptr) (void)driver_.destroy(context_);
}

cudaError_t LimitedContext::enter() const noexcept {
  return driver_.set_current(context_) == CUDA_SUCCESS ? cudaSuccess : cudaErrorDeviceUninitialized;
}

ContextScope::ContextScope(const LimitedContext* context) noexcept : context_(context) {
  if (context_ != nullptr) is_pushed_ = context_->driver_.push(context_->context_) == CUDA_SUCCESS;
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (is_pushed_) (void)context_->driver_.pop(&popped);
}

}  // namespace itif::device::cuda
