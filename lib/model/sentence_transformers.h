// Reads the files that sentence-transformers adds to a model: modules.json, one folder per module.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.h"
#include "model/head_spec.h"
#include "model/spec.h"

namespace itif::model {

// The model that a modules.json describes.
enum class SentenceModel : uint8_t {
  kNone,          // there is no modules.json
  kEmbedding,     // SentenceTransformer
  kCrossEncoder,  // scores of pairs of texts, by the classifier of config.json's architecture
};

// Reads the modules and sets max_text_tokens of `head`; of an embedding also kind, pooling, dense
// and normalize. Errors: kUnsupported (a module or pooling mode that this build does not support,
// by name), kCorrupt, kInvalidArgument.
Result<SentenceModel> read_sentence_transformers(const std::string& directory,
                                                 const BackboneSpec& backbone, HeadSpec& head);

// Reads the activation that CrossEncoder.predict() applies to logits, and sets has_sigmoid_logits.
// `config` is config.json. REQUIRES: the labels are known. Errors: kUnsupported: another activation
// than Sigmoid and Identity.
Status read_score_activation(const std::string& directory, const nlohmann::json& config,
                             HeadSpec& head);

}  // namespace itif::model
