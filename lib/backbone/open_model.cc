#include "backbone/open_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backbone/shared_tokenizers.h"
#include "base/log.h"
#include "json/json_file.h"

namespace itif::backbone {
namespace {

using model::BackboneSpec;
using text::Tokenizer;

// Returns null if the directory has no vocabulary, or an unsupported one: the tenant's requests are
// then token ids. A damaged vocabulary is an error.
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& directory,
                                                        const BackboneSpec& spec) {
  auto loaded = load_shared_tokenizer(directory);
  if (!loaded &&
      (loaded.error().code == Code::kNotFound || loaded.error().code == Code::kUnsupported)) {
    log::warning("{}: served without text payloads: {}", directory, loaded.error().message);
    return nullptr;
  }
  ITIF_ASSIGN(std::shared_ptr<const Tokenizer> tokenizer, std::move(loaded));
  if (tokenizer->vocab_size() > spec.vocab)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: the tokenizer has ids up to {}, the model has {} word embeddings",
                            directory, tokenizer->vocab_size() - 1, spec.vocab));
  return tokenizer;
}

// Returns nullopt if the configuration is missing or unsupported: the tenant's requests are then
// f32 pixels, which need no preprocessing.
Result<std::optional<model::ImageProcessing>> open_image_processing(const std::string& directory,
                                                                    const BackboneSpec& spec) {
  auto read = model::read_image_processing(directory, spec.image);
  if (!read && (read.error().code == Code::kNotFound || read.error().code == Code::kUnsupported)) {
    log::warning("{}: served without image_u8 payloads: {}", directory, read.error().message);
    return std::nullopt;
  }
  ITIF_ASSIGN(model::ImageProcessing processing, std::move(read));
  return processing;
}

// transformers and sentence-transformers load an adapter that is in a model's directory, so that a
// directory must be one or the other.
Status check_base(const model::ModelFiles& files) {
  const auto path = [](const std::string& directory) {
    return directory + "/" + model::Adapter::kConfigFile;
  };
  const bool is_adapter = model::Adapter::is_in(files.directory);
  if (files.base.empty() && is_adapter)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: is an adapter: name its base, a model's directory or the tenant "
                            "of such a model, or remove the file to serve the directory's own "
                            "model",
                            path(files.directory)));
  if (files.base.empty()) return {};
  if (!is_adapter)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: expected an adapter, because a base is named: found no such file",
                            path(files.directory)));
  if (model::Adapter::is_in(files.base))
    return fail(Code::kUnsupported,
                fmt::format("{}: an adapter's base must be a whole model: merge its own adapter "
                            "into it (merge_and_unload in peft)",
                            path(files.base)));
  return {};
}

// Settings that transformers reads for every architecture, each with its neutral value. null is
// neutral, too.
Status refuse_unimplemented_keys(const nlohmann::json& config, const std::string& origin) {
  const struct {
    const char* key;
    nlohmann::json neutral;
    const char* reason;
  } settings[] = {
      {"quantization_config", nullptr, "quantized weights are not supported"},
      {"is_causal", false, "tokens attend to all tokens"},
      {"per_layer_config", nlohmann::json::object(), "all layers have equal sizes"},
      {"transformers_weights", "model.safetensors", "no other file of weights is read"},
  };
  for (const auto& [key, neutral, reason] : settings) {
    const auto it = config.find(key);
    if (it == config.end() || it->is_null() || *it == neutral) continue;
    return fail(Code::kUnsupported, fmt::format("{}: '{}' must be {}: {}, found {}", origin, key,
                                                neutral.dump(), reason, json_file::shown(*it)));
  }
  return {};
}

Result<const Family*> family_of(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(const std::string type, json_file::get_string_or(config, "model_type", "", origin));
  auto family = find_family(type);
  if (!family)
    return fail(family.error().code, fmt::format("{}: {}", origin, family.error().message));
  return *family;
}

}  // namespace

Result<BackboneSpec> parse_backbone_spec(const nlohmann::json& config, const std::string& origin) {
  ITIF_ASSIGN(const Family* family, family_of(config, origin));
  ITIF_TRY(refuse_unimplemented_keys(config, origin));
  return family->parse(config, origin);
}

Result<BackboneSpec> read_backbone_spec(const model::ModelFiles& files) {
  ITIF_TRY(check_base(files));
  const std::string path = files.whole_model() + "/config.json";
  ITIF_ASSIGN(const nlohmann::json config, json_file::read_json_file(path));
  return parse_backbone_spec(config, path);
}

Result<OpenedModel> open_model(const model::ModelFiles& files) {
  ITIF_TRY(check_base(files));
  const std::string& directory = files.whole_model();
  const std::string path = directory + "/config.json";
  ITIF_ASSIGN(nlohmann::json config, json_file::read_json_file(path));
  ITIF_ASSIGN(const Family* family, family_of(config, path));
  ITIF_ASSIGN(BackboneSpec spec, parse_backbone_spec(config, path));
  std::optional<model::Adapter> adapter;
  if (!files.base.empty()) {
    ITIF_ASSIGN(adapter, model::Adapter::open(files.directory));
  }
  ITIF_ASSIGN(model::Checkpoint checkpoint, model::Checkpoint::open(directory));
  if (adapter) {
    ITIF_ASSIGN(config, put_saved(*adapter, *family, config, checkpoint));
  }
  if (family->check_tensors) ITIF_TRY(family->check_tensors(spec, checkpoint));
  ITIF_ASSIGN(model::HeadSpec head,
              model::read_head_spec(directory, config, family->heads, spec, checkpoint));
  std::optional<OpenedAdapter> placed;
  if (adapter) {
    ITIF_ASSIGN(placed, place(*std::move(adapter), *family, spec, head, checkpoint));
  }
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<model::ImageProcessing> images;
  if (spec.takes_images()) {
    ITIF_ASSIGN(images, open_image_processing(directory, spec));
  } else {
    ITIF_ASSIGN(tokenizer, open_tokenizer(directory, spec));
  }
  uint32_t longest = spec.max_tokens();
  // As in sentence-transformers, max_seq_length replaces the tokenizer's limit.
  if (head.max_text_tokens)
    longest = std::min(longest, head.max_text_tokens);
  else if (tokenizer)
    longest = std::min(longest, tokenizer->max_tokens());
  return OpenedModel{files,
                     family,
                     std::move(spec),
                     std::move(head),
                     std::move(checkpoint),
                     std::move(placed),
                     std::move(tokenizer),
                     std::move(images),
                     longest};
}

}  // namespace itif::backbone
