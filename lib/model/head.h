// A tenant's head turns hidden states into the model's results. HeadSpec (head_spec.h) describes it
// as the model's directory does; Head holds its tensors on the device.
//
// Heads are small and differ between tenants, so they are not concatenated: each tenant has its own
// f32 tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/head_spec.h"
#include "model/spec.h"

namespace itif::model {

class Checkpoint;

// "hidden", "pooler", "embedding", "classification", "token_classification", "generation".
const char* head_kind_name(HeadKind kind);

// A LinearSpec's tensors in device memory, f32, row-major.
struct Linear {
  std::unique_ptr<device::Buffer> weight;
  std::unique_ptr<device::Buffer> bias;  // null: none
  uint32_t n = 0, k = 0;
  kernels::Activation activation = kernels::Activation::kNone;
};

struct Head {
  HeadSpec spec;
  std::vector<Linear> pooler;      // empty or one
  std::vector<Linear> classifier;  // empty or one
  std::vector<Linear> dense;
  size_t bytes = 0;  // device memory

  // Length of an embedding.
  uint32_t embedding_size(uint32_t hidden) const { return dense.empty() ? hidden : dense.back().n; }
};

// Determines the head of the model in `directory` from its parsed config.json, its family's layout,
// the tensors present and the files of sentence-transformers. Errors: kUnsupported (an architecture
// or module that this build does not support, by name), kCorrupt and kInvalidArgument as for every
// file of a model.
Result<HeadSpec> read_head_spec(const std::string& directory, const nlohmann::json& config,
                                const HeadLayout& layout, const BackboneSpec& backbone,
                                const Checkpoint& checkpoint);

// Bytes of device memory that load_head() will take.
uint64_t head_bytes(const HeadSpec& spec);
// Uploads the head's tensors. Errors: kInvalidArgument (a tensor missing or misshapen), kCorrupt,
// kResourceExhausted.
Result<Head> load_head(device::Device& device, const HeadSpec& spec, const Checkpoint& checkpoint);

// Human-readable: "classification (3 labels)", "embedding (mean, unit length, 384)".
std::string describe(const HeadSpec& spec, const BackboneSpec& backbone);

}  // namespace itif::model
