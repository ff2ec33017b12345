// A tenant's model as the runtime serves it: a slot of the group's weight store, a head, a
// tokenizer. Immutable once admitted; freed by Group::release when no request names its slot any
// more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/head.h"
#include "model/image_processing.h"
#include "model/spec.h"
#include "model/tokenizer.h"

namespace itif::model {

// Stages of a long loading, for people: ("packing layer 3 of 12", 0.25). Called on the loading
// thread.
using Progress = std::function<void(const std::string& stage, double fraction)>;

struct TenantModel {
  std::string directory;
  uint32_t slot = 0;
  BackboneSpec spec;  // the model's own: its vocabulary may be smaller than its group's
  Head head;
  std::shared_ptr<const Tokenizer>
      tokenizer;                          // null: no vocabulary in the directory, no text payloads
  std::optional<ImageProcessing> images;  // none: no preprocessor_config.json, no u8 pixels
  uint32_t max_tokens = 0;                // of one request
  uint32_t max_text_tokens = 0;           // of one text: longer ones are refused, or cut on request
  uint64_t weight_bytes = 0;              // device memory: backbone and head
};

}  // namespace itif::model
