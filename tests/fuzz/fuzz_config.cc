// A config.json that a tenant brought.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backbone/open_model.h"
#include "base/check.h"
#include "model/json_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif::model;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = parse_json_object(text, "config.json");
  if (!json) {
    CHECK(!json.error().message.empty());
    return 0;
  }
  const auto spec = itif::backbone::parse_backbone_spec(*json, "config.json");
  if (!spec) {
    CHECK(!spec.error().message.empty());
    return 0;
  }
  CHECK(spec->layers > 0 && spec->hidden > 0 && spec->heads > 0 && spec->intermediate > 0);
  CHECK(spec->hidden % spec->heads == 0);
  CHECK(spec->vocab > 0 && spec->max_positions > 0);
  CHECK(!signature(*spec).empty() && !describe(*spec).empty());
  CHECK(check_fits(*spec, *spec).has_value());
  return 0;
}
