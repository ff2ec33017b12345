// cuDNN 9, loaded by name if it is configured.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "device/cuda/cudnn/cudnn_abi.h"

namespace itif::device::cuda {

// The entry points that we load.
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
  // values nullptr: count is set to the largest number of values.
  Status (*get_attribute)(cudnn::Descriptor, cudnn::Attribute, cudnn::AttributeType,
                          int64_t max_values, int64_t* count, void* values) = nullptr;
  Status (*finalize)(cudnn::Descriptor) = nullptr;
  Status (*execute)(cudnn::Handle, cudnn::Descriptor plan,
                    cudnn::Descriptor variant_pack) = nullptr;

  // "9.19.0"
  std::string version() const;
  // Checks that this version supports attention over segments packed without padding, on a GPU of
  // compute capability `major`. Errors: kUnsupported, naming the version that does.
  ::itif::Status check_version(int major) const;
};

// Loads once per process. Errors: kUnsupported, with the loader's message.
Result<const Cudnn*> load_cudnn();

}  // namespace itif::device::cuda
