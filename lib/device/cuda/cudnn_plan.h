// Attention by cuDNN: one operation (SDPA forward) over queries, keys and values as they stand side by side in rows
// that are packed without padding, compiled by cuDNN for the GPU.
//
// What cuDNN sees is [segments, heads, rows, head size] with the strides of those rows; where a segment begins, in
// elements, and how many rows it has, it reads on the device, so that a plan serves any batch of up to so many
// segments of up to so many rows. Segments that are not there have no rows.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "device/cuda/cudnn.h"
#include "tensor/dtype.h"

namespace itif::device::cuda {

class CudnnPlan {
 public:
  struct Shape {
    DType type = DType::kBF16;
    uint32_t num_segments = 0;
    uint32_t most_rows = 0;  // of a segment
    uint32_t num_heads = 0;
    uint32_t head_size = 0;
    bool operator==(const Shape&) const = default;
  };
  // What cuDNN wants rows, and heads in them, to be multiples of.
  static constexpr size_t kAlignmentBytes = 16;

  // Takes about half a second: cuDNN compiles. target: a GPU to compile for, as device properties; nullptr: the
  // handle's. Errors: kUnsupported, with what cuDNN says.
  static Result<std::unique_ptr<CudnnPlan>> make(const Cudnn& cudnn, cudnn::Handle handle,
                                                 const Shape& shape,
                                                 cudnn::Descriptor target = nullptr);
  ~CudnnPlan();
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;

  size_t workspace_bytes() const { return workspace_bytes_; }

  // Device memory.
  struct Call {
    const void* qkv = nullptr;
    void* out = nullptr;
    const int32_t* lengths = nullptr;      // [num_segments]: rows
    const int32_t* qkv_offsets = nullptr;  // [num_segments + 1]: elements
    const int32_t* out_offsets = nullptr;  // likewise
    float scale = 1;
    bool operator==(const Call&) const = default;
  };
  // On the handle's stream. workspace: workspace_bytes().
  cudnn::Status run(cudnn::Handle handle, const Call& call, void* workspace);

 private:
  class Description;
  explicit CudnnPlan(const Cudnn& cudnn) : cudnn_(cudnn) {}
  cudnn::Status bind(const Call& call, void* workspace);

  const Cudnn& cudnn_;
  std::vector<cudnn::Descriptor> descriptors_;  // that the plan is made of
  cudnn::Descriptor plan_ = nullptr, pack_ = nullptr;
  size_t workspace_bytes_ = 0;
  size_t head_bytes_ = 0, hidden_bytes_ = 0;
  Call bound_;  // what pack_ holds: all layers of a batch ask for the same
  void* bound_workspace_ = nullptr;
};

}  // namespace itif::device::cuda
