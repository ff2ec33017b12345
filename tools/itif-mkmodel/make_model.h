// Makes a Hugging Face directory of seeded random weights: a tenant to try the appliance with, or to
// test and time it, where no model can be downloaded. transformers and sentence-transformers load it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/spec.h"
#include "tensor/dtype.h"

namespace itif::mkmodel {

enum class HeadChoice { kNone, kPooler, kEmbedding, kClassification, kTokenClassification };

struct ModelOptions {
  model::BackboneSpec spec;
  HeadChoice head = HeadChoice::kNone;
  std::vector<std::string>
      labels;                 // of the two kinds of classification; empty: two or five usual ones
  DType dtype = DType::kF32;  // of the file: kF32, kF16 or kBF16
  uint64_t seed = 1;
  float initializer_range = 0.02f;  // standard deviation of weights and biases: BERT's
  float layer_norm_range = 0;       // of LayerNorm's parameters around 1 and 0
};

// "none", "pooler", "embedding", "classification", "token-classification".
Result<HeadChoice> parse_head(const std::string& name);

// Writes config.json, model.safetensors and what prepares the input (vocab.txt and tokenizer_config.json, or
// preprocessor_config.json of an image model) and, for an embedding, the files of sentence-transformers into `directory`, which is made if need be. The same options write
// the same bytes. Errors: kInvalidArgument (a spec that contradicts itself), kAlreadyExists (the
// directory holds a model), kPermission, kResourceExhausted.
Status make_model(const ModelOptions& options, const std::string& directory);

}  // namespace itif::mkmodel
