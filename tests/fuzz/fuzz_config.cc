// A tenant's config.json. For an image model the same text also serves as preprocessor_config.json.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backbone/open_model.h"
#include "base/check.h"
#include "json/json_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif::model;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = itif::json_file::parse_json_object(text, "config.json");
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
  CHECK((spec->takes_images() || spec->vocab > 0) && spec->max_positions > 0);
  CHECK(!signature(*spec).empty() && !describe(*spec).empty());
  CHECK(check_fits(*spec, *spec).has_value());
  if (!spec->takes_images()) return 0;
  CHECK(spec->max_tokens() == spec->image.patches() + 1 && spec->image.patches() > 0);
  const auto processing = parse_image_processing(*json, "preprocessor_config.json", spec->image);
  if (!processing) {
    CHECK(!processing.error().message.empty());
    return 0;
  }
  CHECK(processing->scale.size() == spec->image.channels);
  CHECK(processing->shift.size() == spec->image.channels);
  return 0;
}
