#include "model/head.h"

#include <fmt/format.h>

#include <array>

#include "json/json_file.h"
#include "model/checkpoint.h"
#include "model/sentence_transformers.h"

namespace itif::model {
namespace {

// Far above real models, but low enough that an answer with all label names fits one message.
constexpr uint32_t kMaxLabels = 32768;
constexpr uint32_t kMaxTokenLabels = 4096;
constexpr size_t kMaxLabelBytes = 256;

bool has(const Checkpoint& checkpoint, std::string_view module) {
  return checkpoint.find(fmt::format("{}.weight", module)) != nullptr;
}

// Finds the architecture that config.json names, or else the one that fits the tensors present.
Result<const Architecture*> find_architecture(const nlohmann::json& config,
                                              const HeadLayout& layout, bool has_pooler,
                                              const Checkpoint& checkpoint,
                                              const std::string& origin) {
  const auto it = config.find("architectures");
  if (it == config.end() || it->is_null() || (it->is_array() && it->empty())) {
    for (const Architecture& row : layout.architectures) {
      if (row.classifier.empty() || !row.labels.empty() || !has(checkpoint, row.classifier))
        continue;
      const bool has_dense =
          row.dense.empty() ? has_pooler || !row.on_pooler : has(checkpoint, row.dense);
      if (row.kind == HeadKind::kTokenClassification || has_dense) return &row;
    }
    return &layout.architectures.front();
  }
  if (!it->is_array() || it->size() != 1 || !(*it)[0].is_string())
    return fail(Code::kInvalidArgument,
                fmt::format("{}: 'architectures' must be an array of one name, found {}", origin,
                            json_file::shown(*it)));
  const std::string name = (*it)[0].get<std::string>();
  std::string known;
  for (const Architecture& row : layout.architectures) {
    if (name == row.name) return &row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return fail(Code::kUnsupported,
              fmt::format("{}: 'architectures' must be one of {}, found {}", origin, known,
                          json_file::shown(nlohmann::json(name))));
}

Result<std::vector<std::string>> read_labels(const nlohmann::json& config,
                                             const std::string& origin) {
  std::vector<std::string> labels;
  const auto it = config.find("id2label");
  if (it == config.end() || it->is_null()) return labels;
  const auto wrong = [&](const std::string& what) {
    return fail(
        Code::kInvalidArgument,
        fmt::format("{}: 'id2label' must name the labels \"0\" to \"n-1\", {}", origin, what));
  };
  if (!it->is_object() || it->empty() || it->size() > kMaxLabels)
    return wrong("found " + json_file::shown(*it));
  labels.resize(it->size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto label = it->find(std::to_string(i));
    if (label == it->end()) return wrong(fmt::format("found no \"{}\"", i));
    if (!label->is_string() || label->get_ref<const std::string&>().size() > kMaxLabelBytes)
      return wrong(
          fmt::format("of at most {} bytes, found {}", kMaxLabelBytes, json_file::shown(*label)));
    labels[i] = label->get<std::string>();
  }
  return labels;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

Status read_classifier(const nlohmann::json& config, const Architecture& architecture,
                       const BackboneSpec& backbone, const Checkpoint& checkpoint,
                       const std::string& origin, HeadSpec& head) {
  LinearSpec linear;
  linear.weight = fmt::format("{}.weight", architecture.classifier);
  linear.bias = fmt::format("{}.bias", architecture.classifier);
  linear.k = backbone.hidden;
  if (!architecture.labels.empty()) {
    head.labels = split(architecture.labels);
  } else {
    ITIF_ASSIGN(head.labels, read_labels(config, origin));
    const TensorEntry* weight = checkpoint.find(linear.weight);
    if (head.labels.empty() && weight && weight->dims.size() == 2 && weight->dims[0] <= kMaxLabels)
      for (uint64_t i = 0; i < weight->dims[0]; ++i)
        head.labels.push_back(fmt::format("LABEL_{}", i));  // as transformers names them
    if (head.labels.empty())
      head.labels = {"LABEL_0", "LABEL_1"};  // loading then reports the missing tensor
  }
  if (head.kind == HeadKind::kTokenClassification && head.labels.size() > kMaxTokenLabels)
    return fail(Code::kUnsupported,
                fmt::format("{}: at most {} token labels are supported, found {}", origin,
                            kMaxTokenLabels, head.labels.size()));
  linear.n = static_cast<uint32_t>(head.labels.size());
  head.classifier.push_back(std::move(linear));

  ITIF_ASSIGN(const std::string problem,
              json_file::get_string_or(config, "problem_type", "", origin));
  // A softmax of one label would always be 1. transformers refuses it, too.
  if (problem == "single_label_classification" && head.labels.size() == 1)
    return fail(Code::kUnsupported,
                fmt::format("{}: 'problem_type' must be regression or multi_label_classification "
                            "in a model with one label, found {}",
                            origin, json_file::shown(nlohmann::json(problem))));
  if (problem.empty())
    head.problem = head.labels.size() == 1 ? Problem::kRegression : Problem::kSingleLabel;
  else if (problem == "single_label_classification")
    head.problem = Problem::kSingleLabel;
  else if (problem == "multi_label_classification")
    head.problem = Problem::kMultiLabel;
  else if (problem == "regression")
    head.problem = Problem::kRegression;
  else
    return fail(Code::kUnsupported,
                fmt::format("{}: 'problem_type' must be regression, single_label_classification or "
                            "multi_label_classification, found {}",
                            origin, json_file::shown(nlohmann::json(problem))));
  return {};
}

const char* pooling_name(kernels::Pooling pooling) {
  switch (pooling) {
    case kernels::Pooling::kFirst: return "cls";
    case kernels::Pooling::kMean: return "mean";
    case kernels::Pooling::kMax: return "max";
    case kernels::Pooling::kMeanSqrtLength: return "mean_sqrt_len";
    case kernels::Pooling::kLast: return "last";
  }
  return "?";
}

}  // namespace

const char* head_kind_name(HeadKind kind) {
  switch (kind) {
    case HeadKind::kHidden: return "hidden";
    case HeadKind::kPooler: return "pooler";
    case HeadKind::kEmbedding: return "embedding";
    case HeadKind::kClassification: return "classification";
    case HeadKind::kTokenClassification: return "token_classification";
    case HeadKind::kGeneration: return "generation";
  }
  return "?";
}

Result<HeadSpec> read_head_spec(const std::string& directory, const nlohmann::json& config,
                                const HeadLayout& layout, const BackboneSpec& backbone,
                                const Checkpoint& checkpoint) {
  const std::string origin = directory + "/config.json";
  HeadSpec head;

  LinearSpec dense;
  dense.n = dense.k = backbone.hidden;
  dense.activation = kernels::Activation::kTanh;
  if (!layout.pooler.empty()) {
    const auto pooler = [&](const char* part) {
      const std::string bare = fmt::format("{}.{}", layout.pooler, part);
      return checkpoint.choose(std::array{bare, fmt::format("{}.{}", layout.prefix, bare)});
    };
    dense.weight = pooler("weight");
    dense.bias = pooler("bias");
  }
  head.answers_pooled = !dense.weight.empty() && checkpoint.find(dense.weight) != nullptr;

  bool stands_on_dense = true;
  ITIF_ASSIGN(const SentenceModel sentence_model,
              read_sentence_transformers(directory, backbone, head));
  if (sentence_model != SentenceModel::kEmbedding) {
    ITIF_ASSIGN(const Architecture* architecture,
                find_architecture(config, layout, head.answers_pooled, checkpoint, origin));
    head.kind = architecture->kind;
    if (head.kind == HeadKind::kGeneration) {
      ITIF_ASSIGN(GenerationConfig generation, read_generation_config(directory, config, backbone));
      head.generation.push_back(std::move(generation));
      return head;
    }
    if (head.kind == HeadKind::kHidden && head.answers_pooled) head.kind = HeadKind::kPooler;
    if (!architecture->classifier.empty())
      ITIF_TRY(read_classifier(config, *architecture, backbone, checkpoint, origin, head));
    if (sentence_model == SentenceModel::kCrossEncoder) {
      if (!architecture->name.ends_with("ForSequenceClassification"))
        return fail(Code::kUnsupported,
                    fmt::format("{}: 'architectures' must end in ForSequenceClassification in a "
                                "CrossEncoder, found {}",
                                origin, architecture->name));
      ITIF_TRY(read_score_activation(directory, config, head));
    }
    stands_on_dense = architecture->on_pooler || !architecture->dense.empty();
    // The classifier skips the pooler, so the model does not answer with it either.
    if (!stands_on_dense) head.answers_pooled = false;
    if (!architecture->dense.empty()) {
      head.answers_pooled = false;
      dense.weight = fmt::format("{}.weight", architecture->dense);
      dense.bias = fmt::format("{}.bias", architecture->dense);
      dense.activation = architecture->dense_activation;
    }
  }
  // A classifier of whole texts needs the dense layer; loading reports a missing one.
  if (head.answers_pooled && *layout.pooler_activation != '\0') {
    ITIF_ASSIGN(const std::string activation,
                json_file::get_string_or(config, layout.pooler_activation, "tanh", origin));
    if (activation != "tanh")
      return fail(
          Code::kUnsupported,
          fmt::format("{}: '{}' must be \"tanh\" in a model with a pooler, found {}", origin,
                      layout.pooler_activation, json_file::shown(nlohmann::json(activation))));
  }
  if (head.answers_pooled || (head.kind == HeadKind::kClassification && stands_on_dense))
    head.pooler.push_back(std::move(dense));
  return head;
}

std::string describe(const HeadSpec& spec, const BackboneSpec& backbone) {
  switch (spec.kind) {
    case HeadKind::kHidden:
    case HeadKind::kPooler: break;
    case HeadKind::kEmbedding:
      return fmt::format("embedding ({}, {}{})", pooling_name(spec.pooling),
                         spec.normalize ? "unit length, " : "",
                         spec.dense.empty() ? backbone.hidden : spec.dense.back().n);
    case HeadKind::kGeneration:
      return fmt::format("generation ({})", describe(spec.generation.front()));
    case HeadKind::kClassification:
    case HeadKind::kTokenClassification:
      return fmt::format("{} ({} label{}{})", head_kind_name(spec.kind), spec.labels.size(),
                         spec.labels.size() == 1 ? "" : "s",
                         spec.has_sigmoid_logits ? ", sigmoid" : "");
  }
  return head_kind_name(spec.kind);
}

}  // namespace itif::model
