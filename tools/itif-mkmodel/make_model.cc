#include "make_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "safetensors_writer.h"
#include "vocabulary.h"

namespace itif::mkmodel {
namespace {

using nlohmann::ordered_json;

struct Preset {
  const char* name;
  uint32_t layers, hidden, heads, intermediate;
};
constexpr Preset kPresets[] = {
    {"bert-tiny", 2, 128, 2, 512},    {"bert-mini", 4, 256, 4, 1024},
    {"bert-small", 4, 512, 8, 2048},  {"bert-medium", 8, 512, 8, 2048},
    {"bert-base", 12, 768, 12, 3072}, {"bert-large", 24, 1024, 16, 4096},
    {"minilm-l6", 6, 384, 12, 1536},  {"minilm-l12", 12, 384, 12, 1536},
};

struct HeadRow {
  const char* name;
  HeadChoice head;
};
constexpr HeadRow kHeads[] = {
    {"none", HeadChoice::kNone},
    {"pooler", HeadChoice::kPooler},
    {"embedding", HeadChoice::kEmbedding},
    {"classification", HeadChoice::kClassification},
    {"token-classification", HeadChoice::kTokenClassification},
};

constexpr float kClassifierRange = 0.2f;  // wider, so that labels do not all come out alike

std::vector<std::string> labels_of(const ModelOptions& options) {
  if (!options.labels.empty()) return options.labels;
  if (options.head == HeadChoice::kTokenClassification)
    return {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"};
  return {"negative", "positive"};
}

bool has_classifier(const ModelOptions& options) {
  return options.head == HeadChoice::kClassification ||
         options.head == HeadChoice::kTokenClassification;
}

// Nearly normal and very quick: the sum of four uniform 16-bit numbers (variance 4/12).
class Noise {
 public:
  explicit Noise(uint64_t seed) : random_(seed) {}
  float next(float deviation) {
    const uint64_t bits = random_.next();
    const auto sum = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                        (bits >> 32 & 0xffff) + (bits >> 48));
    return (sum / 65535.0f - 2.0f) * 1.7320508f * deviation;
  }

 private:
  Random random_;
};

// All tensors, in the order of transformers' modules. `noise` outlives what is returned.
std::vector<TensorToWrite> list_tensors(const ModelOptions& options, Noise& noise) {
  const model::BackboneSpec& spec = options.spec;
  const uint64_t hidden = spec.hidden;
  const float range = options.initializer_range;
  const std::string base = has_classifier(options) ? "bert." : "";
  std::vector<TensorToWrite> tensors;
  const auto random = [&](const std::string& name, std::vector<uint64_t> dims, float deviation) {
    tensors.push_back(
        {name, std::move(dims), [&noise, deviation] { return noise.next(deviation); }});
  };
  const auto around = [&](const std::string& name, uint64_t size, float value) {
    const float range = options.layer_norm_range;
    tensors.push_back({name, {size}, [&noise, value, range] {
                         return range > 0 ? value + noise.next(range) : value;
                       }});
  };
  const auto linear = [&](const std::string& name, uint64_t n, uint64_t k, float deviation) {
    random(name + ".weight", {n, k}, deviation);
    random(name + ".bias", {n}, deviation);
  };
  const auto norm = [&](const std::string& name) {
    around(name + ".weight", hidden, 1);
    around(name + ".bias", hidden, 0);
  };
  random(base + "embeddings.word_embeddings.weight", {spec.vocab, hidden}, range);
  random(base + "embeddings.position_embeddings.weight", {spec.max_positions, hidden}, range);
  random(base + "embeddings.token_type_embeddings.weight", {spec.type_vocab, hidden}, range);
  norm(base + "embeddings.LayerNorm");
  for (uint32_t i = 0; i < spec.layers; ++i) {
    const std::string layer = fmt::format("{}encoder.layer.{}.", base, i);
    for (const char* part : {"query", "key", "value"})
      linear(layer + "attention.self." + part, hidden, hidden, range);
    linear(layer + "attention.output.dense", hidden, hidden, range);
    norm(layer + "attention.output.LayerNorm");
    linear(layer + "intermediate.dense", spec.intermediate, hidden, range);
    linear(layer + "output.dense", hidden, spec.intermediate, range);
    norm(layer + "output.LayerNorm");
  }
  if (options.head == HeadChoice::kPooler || options.head == HeadChoice::kClassification)
    linear(base + "pooler.dense", hidden, hidden, range);
  if (has_classifier(options))
    linear("classifier", labels_of(options).size(), hidden, kClassifierRange);
  return tensors;
}

ordered_json config_of(const ModelOptions& options) {
  const model::BackboneSpec& spec = options.spec;
  const char* architecture =
      options.head == HeadChoice::kClassification        ? "BertForSequenceClassification"
      : options.head == HeadChoice::kTokenClassification ? "BertForTokenClassification"
                                                         : "BertModel";
  ordered_json config = {
      {"architectures", ordered_json::array({architecture})},
      {"model_type", spec.family},
      {"hidden_size", spec.hidden},
      {"num_hidden_layers", spec.layers},
      {"num_attention_heads", spec.heads},
      {"intermediate_size", spec.intermediate},
      {"hidden_act", spec.activation == kernels::Activation::kGeluTanh
                         ? "gelu_new"
                         : model::activation_name(spec.activation)},
      {"hidden_dropout_prob", 0.1},
      {"attention_probs_dropout_prob", 0.1},
      {"layer_norm_eps", std::stod(fmt::format("{:g}", spec.layer_norm_eps))},
      {"initializer_range", std::stod(fmt::format("{:g}", options.initializer_range))},
      {"max_position_embeddings", spec.max_positions},
      {"type_vocab_size", spec.type_vocab},
      {"vocab_size", spec.vocab},
      {"pad_token_id", spec.pad_id},
      {"position_embedding_type", "absolute"},
      {"torch_dtype", options.dtype == DType::kF32   ? "float32"
                      : options.dtype == DType::kF16 ? "float16"
                                                     : "bfloat16"},
  };
  if (has_classifier(options)) {
    const std::vector<std::string> labels = labels_of(options);
    for (size_t i = 0; i < labels.size(); ++i) {
      config["id2label"][std::to_string(i)] = labels[i];
      config["label2id"][labels[i]] = i;
    }
    if (options.head == HeadChoice::kClassification)
      config["problem_type"] = labels.size() == 1 ? "regression" : "single_label_classification";
  }
  return config;
}

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return fail(Code::kPermission, fmt::format("{}: {}", path, errno_text(errno)));
  return {};
}

Status write_json(const std::string& path, const ordered_json& value) {
  return write_text(path, value.dump(2) + "\n");
}

Status write_tokenizer(const ModelOptions& options, const std::string& directory) {
  std::string text;
  for (const std::string& token : make_vocabulary(options.spec.vocab)) text += token + "\n";
  ITIF_TRY(write_text(directory + "/vocab.txt", text));
  return write_json(directory + "/tokenizer_config.json",
                    {{"tokenizer_class", "BertTokenizer"},
                     {"do_lower_case", true},
                     {"strip_accents", nullptr},
                     {"tokenize_chinese_chars", true},
                     {"model_max_length", options.spec.max_positions},
                     {"unk_token", "[UNK]"},
                     {"cls_token", "[CLS]"},
                     {"sep_token", "[SEP]"},
                     {"pad_token", "[PAD]"},
                     {"mask_token", "[MASK]"}});
}

Status write_sentence_transformers(const ModelOptions& options, const std::string& directory) {
  const std::string type = "sentence_transformers.models.";
  ITIF_TRY(write_json(
      directory + "/modules.json",
      {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", type + "Transformer"}},
       {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", type + "Pooling"}},
       {{"idx", 2}, {"name", "2"}, {"path", "2_Normalize"}, {"type", type + "Normalize"}}}));
  ITIF_TRY(write_json(directory + "/sentence_bert_config.json",
                      {{"max_seq_length", std::min<uint32_t>(options.spec.max_positions, 256)},
                       {"do_lower_case", false}}));
  std::error_code error;
  for (const char* folder : {"/1_Pooling", "/2_Normalize"}) {
    std::filesystem::create_directories(directory + folder, error);
    if (error)
      return fail(Code::kPermission, fmt::format("{}{}: {}", directory, folder, error.message()));
  }
  return write_json(directory + "/1_Pooling/config.json",
                    {{"word_embedding_dimension", options.spec.hidden},
                     {"pooling_mode_cls_token", false},
                     {"pooling_mode_mean_tokens", true},
                     {"pooling_mode_max_tokens", false},
                     {"pooling_mode_mean_sqrt_len_tokens", false}});
}

}  // namespace

Result<model::BackboneSpec> find_backbone(const std::string& name) {
  for (const Preset& preset : kPresets) {
    if (name != preset.name) continue;
    model::BackboneSpec spec;
    spec.family = "bert";
    spec.layers = preset.layers;
    spec.hidden = preset.hidden;
    spec.heads = preset.heads;
    spec.intermediate = preset.intermediate;
    spec.vocab = 30522;
    spec.max_positions = 512;
    spec.type_vocab = 2;
    return spec;
  }
  return fail(Code::kNotFound,
              fmt::format("no backbone '{}'; there are {}", name, backbone_names()));
}

std::string backbone_names() {
  std::string names;
  for (const Preset& preset : kPresets)
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

Result<HeadChoice> parse_head(const std::string& name) {
  std::string known;
  for (const HeadRow& row : kHeads) {
    if (name == row.name) return row.head;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return fail(Code::kNotFound, fmt::format("no head '{}'; there are {}", name, known));
}

Status make_model(const ModelOptions& options, const std::string& directory) {
  const model::BackboneSpec& spec = options.spec;
  for (const auto& [what, value] : {std::pair{"layers", spec.layers},
                                    {"hidden", spec.hidden},
                                    {"heads", spec.heads},
                                    {"intermediate", spec.intermediate},
                                    {"max-positions", spec.max_positions},
                                    {"type-vocab", spec.type_vocab}})
    if (value == 0)
      return fail(Code::kInvalidArgument, fmt::format("--{} must be at least 1", what));
  if (spec.hidden % spec.heads)
    return fail(
        Code::kInvalidArgument,
        fmt::format("--hidden must be a multiple of --heads ({}), is {}", spec.heads, spec.hidden));
  if (spec.vocab < 5)
    return fail(Code::kInvalidArgument, "--vocab must be at least 5: the special tokens");

  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(Code::kPermission, fmt::format("{}: {}", directory, error.message()));
  for (const char* file : {"config.json", "model.safetensors"})
    if (std::filesystem::exists(directory + "/" + file, error))
      return fail(Code::kAlreadyExists,
                  fmt::format("{} already holds a model: choose another directory", directory));
  if (options.head == HeadChoice::kEmbedding)
    ITIF_TRY(write_sentence_transformers(options, directory));
  ITIF_TRY(write_tokenizer(options, directory));
  Noise noise(options.seed);
  ITIF_TRY(write_safetensors(directory + "/model.safetensors", list_tensors(options, noise),
                             options.dtype));
  return write_json(directory + "/config.json", config_of(options));  // last: the model is whole
}

}  // namespace itif::mkmodel
