// Attention by cuDNN: one SDPA forward operation that cuDNN compiles for the GPU. It reads queries,
// keys and values side by side in rows that are packed without padding.
//
// The tensors are [segments, heads, rows, head size] with the strides of those rows. cuDNN reads
// each segment's offset, in elements, and its number of rows from device memory. A plan therefore
// serves any batch up to its number of segments and rows per segment. Absent segments have 0 rows.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "device/cuda/cudnn/cudnn.h"
#include "tensor/dtype.h"

namespace itif::device::cuda {

class CudnnPlan {
 public:
  struct Shape {
    DType type = DType::kBF16;
    uint32_t num_segments = 0;
    uint32_t max_rows = 0;  // of a segment
    uint32_t num_heads = 0;
    uint32_t head_size = 0;
    bool operator==(const Shape&) const = default;
  };
  // cuDNN requires rows, and heads in them, to be multiples of this.
  static constexpr size_t kAlignmentBytes = 16;

  // Compiles the plan, which takes about half a second. target: device properties of the GPU to
  // compile for; nullptr: the handle's GPU. Errors: kUnsupported, with cuDNN's message.
  static Result<std::unique_ptr<CudnnPlan>> make(const Cudnn& cudnn, cudnn::Handle handle,
                                                 const Shape& shape,
                                                 cudnn::Descriptor target = nullptr);
  ~CudnnPlan();
  CudnnPlan(const CudnnPlan&) = delete;
  CudnnPlan& operator=(const CudnnPlan&) = delete;

  size_t workspace_bytes() const { return workspace_bytes_; }

  // Pointers to device memory.
  struct Call {
    const void* qkv = nullptr;
    void* out = nullptr;
    const int32_t* lengths = nullptr;      // [num_segments]: rows
    const int32_t* qkv_offsets = nullptr;  // [num_segments + 1]: elements
    const int32_t* out_offsets = nullptr;  // [num_segments + 1]: elements
    float scale = 1;
    bool operator==(const Call&) const = default;
  };
  // Runs on the handle's stream. workspace: workspace_bytes() of device memory.
  cudnn::Status run(cudnn::Handle handle, const Call& call, void* workspace);

 private:
  class Description;
  explicit CudnnPlan(const Cudnn& cudnn) : cudnn_(cudnn) {}
  cudnn::Status bind(const Call& call, void* workspace);

  const Cudnn& cudnn_;
  std::vector<cudnn::Descriptor> descriptors_;  // parts of the plan
  cudnn::Descriptor plan_ = nullptr, pack_ = nullptr;
  size_t workspace_bytes_ = 0;
  size_t head_bytes_ = 0, hidden_bytes_ = 0;
  Call bound_;  // held by pack_; the same for all layers of a batch
  void* bound_workspace_ = nullptr;
};

}  // namespace itif::device::cuda
