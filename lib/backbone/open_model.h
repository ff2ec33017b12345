// A model's directory, opened: everything that is checked before a group is chosen or a slot taken.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backbone/family.h"
#include "base/error.h"
#include "model/checkpoint.h"
#include "model/head.h"
#include "model/image_processing.h"
#include "model/spec.h"
#include "model/tokenizer.h"

namespace itif::backbone {

// The architecture of the Hugging Face directory `directory`, from its config.json. Errors:
// kNotFound (no such directory or file), kCorrupt (not JSON), kInvalidArgument (a field missing, of
// the wrong type or out of range), kUnsupported (an architecture or setting that this build does
// not run, by name).
Result<model::BackboneSpec> read_backbone_spec(const std::string& directory);

// The same of a config.json that has been read; `origin` names it in errors.
Result<model::BackboneSpec> parse_backbone_spec(const nlohmann::json& config,
                                                const std::string& origin);

struct OpenedModel {
  const Family* family = nullptr;
  model::BackboneSpec spec;
  model::HeadSpec head;
  model::Checkpoint checkpoint;
  std::shared_ptr<const model::Tokenizer> tokenizer;  // null: no vocabulary, or not one that we run
  // None: the model takes no images, or came without a preprocessor_config.json that we run.
  std::optional<model::ImageProcessing> images;
  uint32_t max_text_tokens = 0;  // by the tokenizer's and the head's own limits
};

// Errors: as for read_backbone_spec, Checkpoint::open, read_head_spec and read_image_processing;
// kInvalidArgument, the vocabulary is larger than the model's embeddings.
Result<OpenedModel> open_model(const std::string& directory);

}  // namespace itif::backbone
