// cuDNN 9, found by name when it is asked for.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "device/cuda/cudnn_abi.h"

namespace itif::device::cuda {

// What of it we call.
struct Cudnn {
  using Status = cudnn::Status;

  size_t (*get_version)() = nullptr;
  const char* (*error_string)(Status) = nullptr;
  void (*last_error_string)(char* message, size_t max_size) = nullptr;
  Status (*create)(cudnn::Handle*) = nullptr;
  Status (*destroy)(cudnn::Handle) = nullptr;
  Status (*set_stream)(cudnn::Handle, cudaStream_t) = nullptr;
  Status (*create_descriptor)(cudnn::DescriptorType, cudnn::Descriptor*) = nullptr;
  Status (*destroy_descriptor)(cudnn::Descriptor) = nullptr;
  Status (*set_attribute)(cudnn::Descriptor, cudnn::Attribute, cudnn::AttributeType, int64_t count,
                          const void* values) = nullptr;
  // values null: how many there are at most.
  Status (*get_attribute)(cudnn::Descriptor, cudnn::Attribute, cudnn::AttributeType,
                          int64_t most_values, int64_t* count, void* values) = nullptr;
  Status (*finalize)(cudnn::Descriptor) = nullptr;
  Status (*execute)(cudnn::Handle, cudnn::Descriptor plan,
                    cudnn::Descriptor variant_pack) = nullptr;

  // "9.19.0"
  std::string version() const;
  // Of a GPU of this compute capability: whether it attends to segments that are packed without padding. Errors:
  // kUnsupported, with the version that does.
  ::itif::Status check_version(int major) const;
};

// Once a process. Errors: kUnsupported, with what the loader says.
Result<const Cudnn*> load_cudnn();

}  // namespace itif::device::cuda
