// Attention by cuDNN in place of our kernel (kernels/cuda/attention.cu), if it is configured.
//
// A plan's number of segments and longest segment are rounded up to powers of two, so that similar
// batches share a plan. Plans for small batches are made when their graphs are captured
// (Stream::warm_up).
#pragma once

#include <deque>
#include <memory>

#include "device/cuda/cudnn/cudnn_plan.h"
#include "device/cuda/graph/graphs.h"
#include "device/cuda/memory/plan_memory.h"

namespace itif::device::cuda {

class CudnnAttention {
 public:
  // For launches on `stream`. is_only: attention that cuDNN does not support fails at launch.
  // Errors: kUnsupported, with cuDNN's message.
  static Result<std::unique_ptr<CudnnAttention>> make(const Cudnn& cudnn, DType activation,
                                                      bool is_only, cudaStream_t stream,
                                                      std::shared_ptr<Budget> budget);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // Returns true if cuDNN supports `args`, and always if is_only. Each unsupported kind is logged
  // once.
  bool can_run(const kernels::Attention& args) { return plan_for(args) != nullptr || is_only_; }
  // REQUIRES: can_run(args); queries, keys and values include their bias.
  void run(const kernels::cuda::Launcher& launch, PlanMemory& memory, LaunchKey& key,
           const kernels::Attention& args);
  // Makes the next launches on another stream. cuDNN's plans are not told how many multiprocessors
  // it has: that is part of a plan, and compiling one takes half a second. Errors: kInternal.
  Status use_stream(cudaStream_t stream);

 private:
  struct Entry {
    CudnnPlan::Shape shape;
    std::unique_ptr<CudnnPlan> plan;    // null: cuDNN has none
    std::unique_ptr<Buffer> workspace;  // null: it needs none
    bool is_loaded = false;             // load_launch() has run it
  };
  struct Launch {
    CudnnAttention* attention = nullptr;
    Entry* entry = nullptr;
    CudnnPlan::Call call;
  };
  CudnnAttention(const Cudnn& cudnn, DType activation, bool is_only, std::shared_ptr<Budget> budget)
      : cudnn_(cudnn), activation_(activation), is_only_(is_only), budget_(std::move(budget)) {}
  Entry* plan_for(const kernels::Attention& args);
  Entry& add(const CudnnPlan::Shape& shape);
  static cudaError_t make_launch(const Launch& launch, cudaStream_t stream);
  static cudaError_t load_launch(const Launch& launch, cudaStream_t stream);

  const Cudnn& cudnn_;
  const DType activation_;
  const bool is_only_;
  const std::shared_ptr<Budget> budget_;
  cudnn::Handle handle_ = nullptr;
  std::deque<Entry> entries_;
};

}  // namespace itif::device::cuda
