// A tenant's head turns hidden states into the model's results. HeadSpec describes it as the
// model's directory does; Head holds its tensors on the device.
//
// Heads are small and differ between tenants, so they are not concatenated: each tenant has its own
// f32 tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "model/generation_config.h"
#include "model/spec.h"

namespace itif::model {

class Checkpoint;

enum class HeadKind : uint8_t {
  kHidden,          // raw hidden states
  kPooler,          // BERT's pooler: tanh(W · hidden[0] + b)
  kEmbedding,       // sentence-transformers: pooling, optional dense layers, optional unit length
  kClassification,  // one set of labels per text
  kTokenClassification,  // one set of labels per token
  kGeneration,           // a decoder's output, token by token
};
// "hidden", "pooler", "embedding", "classification", "token_classification", "generation".
const char* head_kind_name(HeadKind kind);

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
  // kGeneration.
  std::vector<GenerationConfig> generation;  // empty or one
  // Longest text the model was trained for (sentence-transformers' max_seq_length); 0: unknown.
  uint32_t max_text_tokens = 0;
};

// A LinearSpec's tensors in device memory, f32, row-major.
struct Linear {
  std::unique_ptr<device::Buffer> weight;
  std::unique_ptr<device::Buffer> bias;  // null: none
  uint32_t n = 0, k = 0;
  kernels::Activation activation = kernels::Activation::kNone;
};

struct Head {
  HeadSpec spec;
  std::vector<Linear> pooler;      // empty or one
  std::vector<Linear> classifier;  // empty or one
  std::vector<Linear> dense;
  size_t bytes = 0;  // device memory

  // Length of an embedding.
  uint32_t embedding_size(uint32_t hidden) const { return dense.empty() ? hidden : dense.back().n; }
};

// Determines the head of the model in `directory` from its parsed config.json, its family's layout,
// the tensors present and the files of sentence-transformers. Errors: kUnsupported (an architecture
// or module that this build does not support, by name), kCorrupt and kInvalidArgument as for every
// file of a model.
Result<HeadSpec> read_head_spec(const std::string& directory, const nlohmann::json& config,
                                const HeadLayout& layout, const BackboneSpec& backbone,
                                const Checkpoint& checkpoint);

// Bytes of device memory that load_head() will take.
uint64_t head_bytes(const HeadSpec& spec);
// Uploads the head's tensors. Errors: kInvalidArgument (a tensor missing or misshapen), kCorrupt,
// kResourceExhausted.
Result<Head> load_head(device::Device& device, const HeadSpec& spec, const Checkpoint& checkpoint);

// Human-readable: "classification (3 labels)", "embedding (mean, unit length, 384)".
std::string describe(const HeadSpec& spec, const BackboneSpec& backbone);

}  // namespace itif::model
