#include "model/loading.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "model/config.h"
#include "model/json_file.h"

namespace itif::model {
namespace {

// Null where the directory holds no vocabulary, or one of a kind that we do not run: such a tenant is
// served token ids. A vocabulary that is damaged is an error.
Result<std::shared_ptr<const Tokenizer>> open_tokenizer(const std::string& directory,
                                                        const BackboneSpec& spec) {
  auto loaded = load_tokenizer(directory);
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

}  // namespace

Result<OpenedModel> open_model(const std::string& directory) {
  const std::string path = directory + "/config.json";
  ITIF_ASSIGN(const nlohmann::json config, read_json_file(path));
  ITIF_ASSIGN(const BackboneSpec spec, parse_backbone_spec(config, path));
  ITIF_ASSIGN(Checkpoint checkpoint, Checkpoint::open(directory));
  ITIF_ASSIGN(HeadSpec head, read_head_spec(directory, config, spec, checkpoint));
  ITIF_ASSIGN(std::shared_ptr<const Tokenizer> tokenizer, open_tokenizer(directory, spec));
  uint32_t longest = spec.max_positions;
  if (tokenizer) longest = std::min(longest, tokenizer->max_tokens());
  if (head.max_text_tokens) longest = std::min(longest, head.max_text_tokens);
  return OpenedModel{spec, std::move(head), std::move(checkpoint), std::move(tokenizer), longest};
}

}  // namespace itif::model
