// A tenant's generation_config.json.
//
//   input = the file
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "json/json_file.h"
#include "model/generation_config.h"
#include "model/spec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif::model;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto object = itif::json_file::parse_json_object(text, "generation_config.json");
  if (!object) {
    CHECK(!object.error().message.empty());
    return 0;
  }
  BackboneSpec backbone;
  backbone.vocab = 100;
  backbone.max_positions = 64;
  const auto config = parse_generation_config(*object, "generation_config.json", backbone);
  if (!config) {
    CHECK(!config.error().message.empty());
    return 0;
  }
  CHECK(config->num_beams >= 1 && config->num_beams <= GenerationConfig::kMaxBeams);
  CHECK(!config->eos.empty() && config->eos.size() <= GenerationConfig::kMaxEosTokens);
  CHECK(config->candidates_per_beam() > 0 && !describe(*config).empty());
  return 0;
}
