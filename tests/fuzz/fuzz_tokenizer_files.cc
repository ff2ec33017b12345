// A tenant's tokenizer.json or vocab.txt, and a text encoded with that tokenizer.
//
//   input = u8: 0 a tokenizer.json, else a vocab.txt; then the file
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/wordpiece_files.h"

namespace {

using namespace itif::text;

void use(const WordPieceConfig& config) {
  const auto tokenizer = WordPieceTokenizer::create(config);
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty());
    return;
  }
  std::vector<int32_t> ids;
  std::vector<uint8_t> types;
  const EncodeStatus status =
      (*tokenizer)
          ->encode("The unaffable caf\u00e9, \u4e2d\u56fd [SEP] xxxx", "pair", {}, ids, types);
  CHECK(status == EncodeStatus::kOk);
  for (const int32_t id : ids)
    CHECK(id >= 0 && static_cast<uint32_t>(id) < (*tokenizer)->vocab_size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 0) {
    const auto config = parse_tokenizer_json(text, "tokenizer.json");
    if (config) use(*config);
    if (!config) CHECK(!config.error().message.empty());
    return 0;
  }
  auto tokens = parse_vocabulary(text, "vocab.txt");
  if (!tokens) {
    CHECK(!tokens.error().message.empty());
    return 0;
  }
  WordPieceConfig config;
  config.tokens = std::move(*tokens);
  use(config);
  return 0;
}
