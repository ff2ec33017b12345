// A tenant's model as the runtime serves it: a slot of the group and one of its weight store, a
// head, a tokenizer. Immutable once admitted. Group::release frees it once no request names its
// slot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/head.h"
#include "model/image_processing.h"
#include "model/spec.h"
#include "text/tokenizer.h"

namespace itif::model {

// Reports the stages of a load to people: ("packing layer 3 of 12", 0.25). Called on the loading
// thread.
using Progress = std::function<void(const std::string& stage, double fraction)>;

struct TenantModel {
  std::string directory;
  std::string base;          // an adapter's base model; empty: the model is whole
  uint32_t slot = 0;         // the tenant's, in its group
  uint32_t weight_slot = 0;  // of the weight store; tenants of equal backbones have the same
  BackboneSpec spec;         // the model's own: its vocabulary may be smaller than its group's
  Head head;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // null: no vocabulary, so no text payloads
  std::optional<ImageProcessing> images;  // empty: no preprocessor_config.json, so no u8 pixels
  uint32_t max_tokens = 0;                // limit of one request
  uint32_t max_text_tokens = 0;  // limit of one text; longer ones are refused, or cut on request
  // Device memory of an adapter's matrices; 0: the model is whole, or the adapter is merged.
  uint64_t adapter_bytes = 0;
  // Device memory: backbone, adapter and head. Counts weights that other tenants share, too.
  uint64_t weight_bytes = 0;
};

}  // namespace itif::model
