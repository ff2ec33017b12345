// Makes a LoRA adapter of seeded random weights, as PEFT saves it, to try, test or measure adapters
// over a base of make_model.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/spec.h"
#include "tensor/dtype.h"

namespace itif::mkmodel {

struct AdapterOptions {
  model::BackboneSpec spec = {};  // of the base
  // Names of modules, or their ends after a dot; empty: query and value, as PEFT chooses for BERT.
  std::vector<std::string> targets = {};
  uint32_t rank = 8;
  double alpha = 16;
  bool is_rank_stabilized = false;  // use_rslora
  uint32_t num_labels = 0;          // of an own classifier; 0: the adapter has none
  DType dtype = DType::kF32;        // of the file: kF32, kF16 or kBF16
  uint64_t seed = 1;
  float range = 0.02f;  // standard deviation of weights
};

// Writes adapter_config.json and adapter_model.safetensors into `directory`, which is created if
// missing. The same options write the same bytes. Errors: kInvalidArgument (no module has such a
// name, or the family has no classifier), those of make_output_directory(), kResourceExhausted.
Status make_adapter(const AdapterOptions& options, const std::string& directory);

}  // namespace itif::mkmodel
