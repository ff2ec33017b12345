// A tenant's adapter_config.json.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "json/json_file.h"
#include "model/adapter_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = json_file::parse_json_object(text, "adapter_config.json");
  if (!json) return 0;
  const auto config = model::parse_adapter_config(*json, "adapter_config.json");
  if (!config) {
    CHECK(config.error().message.find("adapter_config.json") != std::string::npos);
    return 0;
  }
  CHECK(config->rank >= 1 && config->rank <= model::kMaxAdapterRank);
  std::vector<std::string> modules = config->targets;
  modules.insert(modules.end(), {"", ".", "bert.encoder.layer.0.attention.self.query"});
  for (const std::string& module : modules) {
    const auto rank = config->rank_of(module, "adapter_config.json");
    if (!rank) continue;
    CHECK(*rank >= 1 && *rank <= model::kMaxAdapterRank);
    const auto scale = config->scale_of(module, *rank, "adapter_config.json");
    if (scale) CHECK(std::isfinite(*scale));
  }
  return 0;
}
