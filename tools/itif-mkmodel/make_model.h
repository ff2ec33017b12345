// Makes a Hugging Face directory of seeded random weights, to try, test or measure the appliance
// without downloading a model. transformers and sentence-transformers can load it.
#pragma once

#include <cstdint>
#include <functional>
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
  std::vector<std::string> labels =
      {};                     // for both classification heads; empty: two or five defaults
  DType dtype = DType::kF32;  // of the file: kF32, kF16 or kBF16
  uint64_t seed = 1;
  float initializer_range = 0.02f;  // standard deviation of weights and biases; BERT's default
  float layer_norm_range = 0;       // deviation of LayerNorm's parameters from 1 and 0
  // Chooses tensors whose values come from tuned_seed instead, as if fine-tuning had changed them.
  // All others equal those of the untuned model. Null: none is chosen.
  std::function<bool(const std::string& tensor)> is_tuned = {};
  uint64_t tuned_seed = 1;
};

// Parses "none", "pooler", "embedding", "classification" or "token-classification". Errors:
// kNotFound.
Result<HeadChoice> parse_head(const std::string& name);

// Writes config.json, model.safetensors and the files for input processing (vocab.txt and
// tokenizer_config.json, or preprocessor_config.json of an image model) into `directory`, which is
// created if missing. An embedding model also gets the files of sentence-transformers. The same
// options write the same bytes. Errors: kInvalidArgument (a spec that contradicts itself), those of
// make_output_directory(), kResourceExhausted.
Status make_model(const ModelOptions& options, const std::string& directory);

}  // namespace itif::mkmodel
