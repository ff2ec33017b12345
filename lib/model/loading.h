// A model's directory, opened: everything that is checked before a slot is taken.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "model/checkpoint.h"
#include "model/head.h"
#include "model/spec.h"
#include "model/tokenizer.h"

namespace itif::model {

struct OpenedModel {
  BackboneSpec spec;
  HeadSpec head;
  Checkpoint checkpoint;
  std::shared_ptr<const Tokenizer> tokenizer;  // null: no vocabulary, or not one that we run
  uint32_t max_text_tokens = 0;                // by the tokenizer's and the head's own limits
};

// Errors: as for read_backbone_spec, Checkpoint::open and read_head_spec; kInvalidArgument, the
// vocabulary is larger than the model's embeddings.
Result<OpenedModel> open_model(const std::string& directory);

}  // namespace itif::model
