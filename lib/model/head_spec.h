// A head as its model's directory describes it, and the heads that a family has.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/args.h"
#include "model/generation_config.h"

namespace itif::model {

enum class HeadKind : uint8_t {
  kHidden,          // raw hidden states
  kPooler,          // BERT's pooler: tanh(W · hidden[0] + b)
  kEmbedding,       // sentence-transformers: pooling, optional dense layers, optional unit length
  kClassification,  // one set of labels per text
  kTokenClassification,  // one set of labels per token
  kGeneration,           // a decoder's output, token by token
};
// How logits become probabilities.
enum class Problem : uint8_t { kSingleLabel, kMultiLabel, kRegression };

// out = activation(weight · x + bias), given by tensor names.
struct LinearSpec {
  std::string weight;     // tensor name, [n, k]
  std::string bias;       // tensor name, [n]; empty: none
  std::string directory;  // checkpoint that holds them; empty: the model's
  uint32_t n = 0, k = 0;
  kernels::Activation activation = kernels::Activation::kNone;
};

// A transformers class that config.json's `architectures` may name. If we serve a class's encoder
// but do not compute its head (masked language modelling), the result is hidden states.
struct Architecture {
  std::string_view name;  // "BertForSequenceClassification"
  HeadKind kind = HeadKind::kHidden;
  std::string_view classifier = {};  // module; empty: none
  std::string_view labels = {};      // comma-separated if the head fixes them; empty: id2label
  // kClassification: the module between the first token and the classifier; empty: see on_pooler.
  std::string_view dense = {};
  bool on_pooler = true;  // if `dense` is empty: the pooler (true) or nothing is between them
  kernels::Activation dense_activation = kernels::Activation::kTanh;
};

// The head names of a backbone family.
struct HeadLayout {
  // Prefix of the encoder's tensors in a checkpoint with a head: "bert".
  std::string_view prefix;
  std::string_view pooler;  // module; empty: the family has none
  // The key of the pooler's activation in config.json, "tanh" if it is absent; empty: always tanh.
  const char* pooler_activation = "";
  std::span<const Architecture> architectures;  // the first is the bare encoder
};

struct HeadSpec {
  HeadKind kind = HeadKind::kHidden;
  // kEmbedding.
  kernels::Pooling pooling = kernels::Pooling::kMean;
  bool normalize = false;
  std::vector<LinearSpec> dense;  // after pooling, in order
  // The pooler, if the model has one, or the dense layer before a classifier of whole texts.
  std::vector<LinearSpec> pooler;  // empty or one
  bool answers_pooled = false;     // it is a pooler, and clients may request its output
  // kClassification, kTokenClassification.
  std::vector<LinearSpec> classifier;  // empty or one
  std::vector<std::string> labels;     // by index
  Problem problem = Problem::kSingleLabel;
  bool has_sigmoid_logits = false;  // a sigmoid of each logit is answered, as a CrossEncoder does
  // kGeneration.
  std::vector<GenerationConfig> generation;  // empty or one
  // Longest text the model was trained for (sentence-transformers' max_seq_length); 0: unknown.
  uint32_t max_text_tokens = 0;
};

}  // namespace itif::model
