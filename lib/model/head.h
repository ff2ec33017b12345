// A tenant's head turns hidden states into the model's results. HeadSpec (head_spec.h) describes it
// as the model's directory does; Head holds its tensors on the device.
//
// Heads are small and differ between tenants, so they are not concatenated: each tenant has f32
// tensors of its own. Tensors of the same bytes are stored once for all heads of a device
// (weight_pool.h); the last head frees them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/head_spec.h"
#include "model/spec.h"
#include "model/weight_pool.h"

namespace itif::model {

class Checkpoint;

// "hidden", "pooler", "embedding", "classification", "token_classification", "generation".
const char* head_kind_name(HeadKind kind);

// A tensor that other heads may hold, too. REQUIRES: the pool outlives it.
using HeadTensor =
    std::unique_ptr<const device::Buffer, std::function<void(const device::Buffer*)>>;

// A LinearSpec's tensors in device memory, f32, row-major.
struct Linear {
  HeadTensor weight;
  HeadTensor bias;  // null: none
  uint32_t n = 0, k = 0;
  kernels::Activation activation = kernels::Activation::kNone;
};

struct Head {
  HeadSpec spec;
  std::vector<Linear> pooler;      // empty or one
  std::vector<Linear> classifier;  // empty or one
  std::vector<Linear> dense;
  size_t bytes = 0;  // device memory, counting tensors that other heads share, too

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

// Bytes of device memory of all tensors.
uint64_t head_bytes(const HeadSpec& spec);

// The tensors of a head that a pool has already.
struct HeadMatch {
  // In the order in which load_head() loads tensors; null: not found. Empty: shares nothing.
  std::vector<std::shared_ptr<WeightPool::Entry>> same;
  uint64_t new_bytes = 0;  // of device memory that load_head() takes
};
// Reads the head's tensors, and compares them with those in the pool. Errors: as load_head().
Result<HeadMatch> match_head(WeightPool& pool, const HeadSpec& spec, const Checkpoint& checkpoint);

// The memory of a head.
struct HeadMemory {
  WeightPool& pool;
  WeightPool::Account& account;  // of the head's group
  HeadMatch match;
};
// Uploads the head's tensors. `memory` null: it has its own tensors, which count nowhere. Errors:
// kInvalidArgument (a tensor missing or misshapen), kCorrupt, kResourceExhausted.
Result<Head> load_head(device::Device& device, const HeadSpec& spec, const Checkpoint& checkpoint,
                       const HeadMemory* memory = nullptr);

// Human-readable: "classification (3 labels)", "embedding (mean, unit length, 384)".
std::string describe(const HeadSpec& spec, const BackboneSpec& backbone);

}  // namespace itif::model
