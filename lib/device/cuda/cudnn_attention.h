// Attention by cuDNN instead of ours (kernels/cuda/attention.cu), where it is asked for.
//
// Plans are for as many segments, and as many rows of the longest, as the next power of two has: a batch of a kind that
// came before finds its plan. Those of small batches are made with the batches' graphs (Stream::make_ready).
#pragma once

#include <deque>
#include <memory>

#include "device/cuda/cudnn_plan.h"
#include "device/cuda/graphs.h"
#include "device/cuda/plan_memory.h"

namespace itif::device::cuda {

class CudnnAttention {
 public:
  // For launches on `stream`. is_only: what it lacks fails when it is launched. Errors: kUnsupported, with what cuDNN
  // says.
  static Result<std::unique_ptr<CudnnAttention>> make(const Cudnn& cudnn, DType compute,
                                                      bool is_only, cudaStream_t stream,
                                                      std::shared_ptr<Budget> budget);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Whether run() can. What it cannot is logged once.
  bool can_run(const kernels::Attention& args) { return plan_for(args) != nullptr || is_only_; }
  // REQUIRES: can_run(args); queries, keys and values lack no bias.
  void run(const kernels::cuda::Launcher& launch, PlanMemory& memory, LaunchKey& key,
           const kernels::Attention& args);

 private:
  struct Entry {
    CudnnPlan::Shape shape;
    std::unique_ptr<CudnnPlan> plan;    // null: cuDNN has none
    std::unique_ptr<Buffer> workspace;  // null: it needs none
  };
  struct Launch {
    CudnnAttention* attention = nullptr;
    Entry* entry = nullptr;
    CudnnPlan::Call call;
  };
  CudnnAttention(const Cudnn& cudnn, DType compute, bool is_only, std::shared_ptr<Budget> budget)
      : cudnn_(cudnn), compute_(compute), is_only_(is_only), budget_(std::move(budget)) {}
  Entry* plan_for(const kernels::Attention& args);
  Entry& add(const CudnnPlan::Shape& shape);
  static cudaError_t make_launch(const Launch& launch, cudaStream_t stream);

  const Cudnn& cudnn_;
  const DType compute_;
  const bool is_only_;
  const std::shared_ptr<Budget> budget_;
  cudnn::Handle handle_ = nullptr;
  std::deque<Entry> entries_;
};

}  // namespace itif::device::cuda
