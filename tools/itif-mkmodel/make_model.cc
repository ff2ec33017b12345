#include "make_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "backbone/family.h"
#include "base/random.h"
#include "output_directory.h"
#include "safetensors_writer.h"
#include "sentencepiece_writer.h"
#include "vocabulary.h"

namespace itif::mkmodel {
namespace {

using nlohmann::ordered_json;

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

// Longest generated sequence. With random weights a sequence rarely ends before.
constexpr uint32_t kMaxLength = 64;
constexpr float kClassifierRange = 0.2f;  // wide, so that probabilities of labels differ

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

// Fast approximation of a normal distribution: the sum of four uniform 16-bit numbers (variance
// 4/12).
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

// The values of a model's tensors, in the order of the file.
class Values {
 public:
  explicit Values(const ModelOptions& options)
      : is_tuned_(options.is_tuned), noise_(options.seed), tuned_(options.tuned_seed) {}

  // Draws from both sources, so that a tensor's values do not depend on which others are tuned.
  std::function<float()> around(const std::string& tensor, float value, float deviation) {
    const bool is_tuned = is_tuned_ && is_tuned_(tensor);
    return [this, is_tuned, value, deviation] {
      const float base = noise_.next(deviation), tuned = tuned_.next(deviation);
      return value + (is_tuned ? tuned : base);
    };
  }

 private:
  const std::function<bool(const std::string&)> is_tuned_;
  Noise noise_, tuned_;
};

// Returns the family's architecture with this head. Errors: kInvalidArgument, it has none.
Result<const model::Architecture*> architecture_of(const backbone::Family& family, HeadChoice head,
                                                   bool takes_images) {
  const model::HeadKind kind =
      head == HeadChoice::kClassification        ? model::HeadKind::kClassification
      : head == HeadChoice::kTokenClassification ? model::HeadKind::kTokenClassification
                                                 : model::HeadKind::kHidden;
  // A family that generates has no other head.
  const model::Architecture& first = family.heads.architectures.front();
  const bool generates = first.kind == model::HeadKind::kGeneration;
  if (head == HeadChoice::kNone && generates) return &first;
  // sentence-transformers supports only text models here.
  const bool is_there = head == HeadChoice::kPooler      ? !family.heads.pooler.empty()
                        : head == HeadChoice::kEmbedding ? !takes_images && !generates
                                                         : true;
  if (is_there)
    for (const model::Architecture& row : family.heads.architectures)
      if (row.kind == kind) return &row;
  return fail(Code::kInvalidArgument,
              fmt::format("{} does not have this head: choose another --head", family.model_type));
}

// Lists all tensors in the order of the family's weight kinds. REQUIRES: `values` outlives the
// result.
std::vector<TensorToWrite> list_tensors(const ModelOptions& options, const backbone::Family& family,
                                        const model::Architecture& architecture, Values& values) {
  // In a model with a head the encoder's tensors have a prefix: use their second name.
  const bool generates = architecture.kind == model::HeadKind::kGeneration;
  const size_t naming = architecture.classifier.empty() && !generates ? 0 : 1;
  std::vector<TensorToWrite> tensors;
  const auto random = [&](const std::string& name, std::vector<uint64_t> dims, float deviation) {
    tensors.push_back({name, std::move(dims), values.around(name, 0, deviation)});
  };
  const auto around = [&](const std::string& name, std::vector<uint64_t> dims, float value) {
    const float range = options.layer_norm_range;
    if (range > 0)
      tensors.push_back({name, std::move(dims), values.around(name, value, range)});
    else
      tensors.push_back({name, std::move(dims), [value] { return value; }});
  };
  for (const model::WeightKind& kind : family.weight_kinds(options.spec)) {
    const Shape& shape = kind.source_shape;
    const std::vector<uint64_t> dims(shape.dims.begin(), shape.dims.begin() + shape.rank);
    for (const model::Source& source : kind.sources) {
      if (source.names.empty()) continue;  // not in this architecture
      const std::string& name = source.names[std::min(naming, source.names.size() - 1)];
      // A shared tensor: an embedding that is also the output's weight.
      if (std::ranges::find(tensors, name, &TensorToWrite::name) != tensors.end()) continue;
      if (kind.init == model::Init::kNormal)
        random(name, dims, options.initializer_range);
      else
        around(name, dims, kind.init == model::Init::kOne ? 1.0f : 0.0f);
    }
  }
  const uint64_t hidden = options.spec.hidden;
  const auto linear = [&](const std::string& module, uint64_t n, float deviation) {
    random(module + ".weight", {n, hidden}, deviation);
    random(module + ".bias", {n}, deviation);
  };
  const bool classifies = options.head == HeadChoice::kClassification;
  const bool pools = options.head == HeadChoice::kPooler || (classifies && architecture.on_pooler);
  if (classifies && !architecture.dense.empty())
    linear(std::string(architecture.dense), hidden, options.initializer_range);
  else if (pools)
    linear(
        (naming ? std::string(family.heads.prefix) + "." : "") + std::string(family.heads.pooler),
        hidden, options.initializer_range);
  if (!architecture.classifier.empty())
    linear(std::string(architecture.classifier), labels_of(options).size(), kClassifierRange);
  return tensors;
}

ordered_json config_of(const ModelOptions& options, const backbone::Family& family,
                       const model::Architecture& architecture) {
  ordered_json config = {{"architectures", ordered_json::array({std::string(architecture.name)})}};
  config.update(family.config(options.spec));
  config["initializer_range"] = std::stod(fmt::format("{:g}", options.initializer_range));
  config["torch_dtype"] = options.dtype == DType::kF32   ? "float32"
                          : options.dtype == DType::kF16 ? "float16"
                                                         : "bfloat16";
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
                     {"model_max_length", options.spec.max_tokens()},
                     {"unk_token", "[UNK]"},
                     {"cls_token", "[CLS]"},
                     {"sep_token", "[SEP]"},
                     {"pad_token", "[PAD]"},
                     {"mask_token", "[MASK]"}});
}

Status write_preprocessor(const ModelOptions& options, const std::string& directory) {
  const model::ImageInput& image = options.spec.image;
  const std::vector<double> half(image.channels, 0.5);
  return write_json(directory + "/preprocessor_config.json",
                    {{"image_processor_type", "ViTImageProcessor"},
                     {"do_resize", true},
                     {"size", {{"height", image.height}, {"width", image.width}}},
                     {"resample", 2},
                     {"do_rescale", true},
                     {"rescale_factor", 1.0 / 255},
                     {"do_normalize", true},
                     {"image_mean", half},
                     {"image_std", half}});
}

// As in published translation models, the last id is both the padding and the decoder's first
// token.
Status write_generation(const ModelOptions& options, const std::string& directory) {
  const uint32_t padding = options.spec.vocab - 1;
  const std::vector<std::string> pieces = make_pieces(options.spec.vocab - 3);
  const std::string model = sentencepiece_model(pieces);
  ordered_json ids = {{"</s>", 0}, {"<unk>", 1}};
  for (const std::string& piece : pieces) ids[piece] = ids.size();
  ids["<pad>"] = padding;
  ITIF_TRY(write_text(directory + "/source.spm", model));
  ITIF_TRY(write_text(directory + "/target.spm", model));
  ITIF_TRY(write_json(directory + "/vocab.json", ids));
  ITIF_TRY(write_json(directory + "/tokenizer_config.json",
                      {{"tokenizer_class", "MarianTokenizer"},
                       {"source_lang", "xx"},
                       {"target_lang", "yy"},
                       {"model_max_length", options.spec.max_positions}}));
  return write_json(directory + "/generation_config.json",
                    {{"num_beams", 4},
                     {"max_length", std::min(kMaxLength, options.spec.max_positions)},
                     {"bad_words_ids", ordered_json::array({ordered_json::array({padding})})},
                     {"decoder_start_token_id", padding},
                     {"pad_token_id", padding},
                     {"bos_token_id", 0},
                     {"eos_token_id", 0},
                     {"forced_eos_token_id", 0}});
}

Status write_sentence_transformers(const ModelOptions& options, const std::string& directory) {
  const std::string type = "sentence_transformers.models.";
  ITIF_TRY(write_json(
      directory + "/modules.json",
      {{{"idx", 0}, {"name", "0"}, {"path", ""}, {"type", type + "Transformer"}},
       {{"idx", 1}, {"name", "1"}, {"path", "1_Pooling"}, {"type", type + "Pooling"}},
       {{"idx", 2}, {"name", "2"}, {"path", "2_Normalize"}, {"type", type + "Normalize"}}}));
  ITIF_TRY(write_json(directory + "/sentence_bert_config.json",
                      {{"max_seq_length", std::min<uint32_t>(options.spec.max_tokens(), 256)},
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

Result<HeadChoice> parse_head(const std::string& name) {
  std::string known;
  for (const HeadRow& row : kHeads) {
    if (name == row.name) return row.head;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return fail(Code::kNotFound, fmt::format("no head '{}'; choose one of {}", name, known));
}

Status make_model(const ModelOptions& options, const std::string& directory) {
  const model::BackboneSpec& spec = options.spec;
  for (const auto& [what, value] : {std::pair{"layers", spec.layers},
                                    {"hidden", spec.hidden},
                                    {"heads", spec.heads},
                                    {"intermediate", spec.intermediate},
                                    {"max-positions", spec.max_positions}})
    if (value == 0)
      return fail(Code::kInvalidArgument, fmt::format("--{} must be at least 1", what));
  if (spec.hidden % spec.heads)
    return fail(Code::kInvalidArgument,
                fmt::format("--hidden must be a multiple of --heads ({}), but is {}", spec.heads,
                            spec.hidden));
  if (spec.vocab < 5 && !spec.takes_images())
    return fail(Code::kInvalidArgument, "--vocab must be at least 5: the special tokens");
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  ITIF_TRY(family->parse(family->config(spec), "the requested backbone"));
  ITIF_ASSIGN(const model::Architecture* architecture,
              architecture_of(*family, options.head, spec.takes_images()));

  ITIF_TRY(make_output_directory(directory));
  if (options.head == HeadChoice::kEmbedding)
    ITIF_TRY(write_sentence_transformers(options, directory));
  const bool generates = architecture->kind == model::HeadKind::kGeneration;
  ITIF_TRY(spec.takes_images() ? write_preprocessor(options, directory)
           : generates         ? write_generation(options, directory)
                               : write_tokenizer(options, directory));
  Values values(options);
  ITIF_TRY(write_safetensors(directory + "/model.safetensors",
                             list_tensors(options, *family, *architecture, values), options.dtype));
  // Written last, as the mark of a complete model.
  return write_json(directory + "/config.json", config_of(options, *family, *architecture));
}

}  // namespace itif::mkmodel
