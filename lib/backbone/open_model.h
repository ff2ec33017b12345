// Opens a model's directory and checks it before a group is chosen or a slot taken.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backbone/family.h"
#include "backbone/open_adapter.h"
#include "base/error.h"
#include "model/checkpoint.h"
#include "model/head.h"
#include "model/image_processing.h"
#include "model/model_files.h"
#include "model/spec.h"
#include "text/tokenizer.h"

namespace itif::backbone {

// Reads the architecture of a model, or of an adapter's base, from its config.json. Errors:
// kNotFound (no such directory or file), kCorrupt (not JSON), kInvalidArgument (a field missing, of
// the wrong type or out of range, an adapter without base, or a base without adapter), kUnsupported
// (an architecture or setting that this build does not support, by name).
Result<model::BackboneSpec> read_backbone_spec(const model::ModelFiles& files);

// Same, from a config.json in memory; `origin` names it in errors.
Result<model::BackboneSpec> parse_backbone_spec(const nlohmann::json& config,
                                                const std::string& origin);

struct OpenedModel {
  model::ModelFiles files = std::string();
  const Family* family = nullptr;
  model::BackboneSpec spec;
  model::HeadSpec head;
  model::Checkpoint checkpoint;  // an adapter's: the base's, with the adapter's whole tensors
  std::optional<OpenedAdapter> adapter;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // null: no vocabulary, or an unsupported one
  // Empty: the model takes no images, or has no preprocessor_config.json that is supported.
  std::optional<model::ImageProcessing> images;
  uint32_t max_text_tokens = 0;  // at most the model's positions
};

// Errors: those of read_backbone_spec, Checkpoint::open, Family::check_tensors, read_head_spec and
// read_image_processing; for an adapter also those of Adapter::open, put_saved and place;
// kInvalidArgument: the vocabulary is larger than the model's embeddings.
Result<OpenedModel> open_model(const model::ModelFiles& files);

}  // namespace itif::backbone
