#include "model/image_processing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <initializer_list>

#include "json/json_file.h"

namespace itif::model {
namespace {

using nlohmann::json;

std::unexpected<Error> wrong(const std::string& origin, const char* key,
                             const std::string& expected, const json& found) {
  return fail(Code::kInvalidArgument, fmt::format("{}: '{}' must be {}, found {}", origin, key,
                                                  expected, json_file::shown(found)));
}

// transformers fails for a step whose setting is null.
Status check_set(const json& config, const char* step, std::initializer_list<const char*> keys,
                 const std::string& origin) {
  for (const char* key : keys)
    if (const auto it = config.find(key); it != config.end() && it->is_null())
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' must be set or absent if '{}' is true, found null", origin,
                              key, step));
  return {};
}

// One number means both sides, unless 'default_to_square' is false: then the shorter side.
Status check_square(const json& config, const char* key, const std::string& origin) {
  ITIF_ASSIGN(const bool squares,
              json_file::get_bool_or_null(config, "default_to_square", true, origin));
  if (squares) return {};
  return fail(Code::kUnsupported,
              fmt::format("{}: 'default_to_square' must be true, or '{}' give height and width, "
                          "found false and {}",
                          origin, key, json_file::shown(config.value(key, json()))));
}

// {"height": h, "width": w}, or one number for both.
Status check_size(const json& config, const ImageInput& input, const std::string& origin) {
  const auto it = config.find("size");
  if (it == config.end() || it->is_null()) {
    // transformers' default.
    if (input.height == 224 && input.width == 224) return {};
    return wrong(origin, "size", "the model's image_size", json());
  }
  json size = *it;
  if (size.is_number_integer()) {
    ITIF_TRY(check_square(config, "size", origin));
    size = {{"height", size}, {"width", size}};
  }
  if (size.is_object() && size.contains("shortest_edge"))
    return fail(Code::kUnsupported, fmt::format("{}: 'size' must give height and width, found {}",
                                                origin, json_file::shown(*it)));
  if (!size.is_object() || size.value("height", json()) != json(input.height) ||
      size.value("width", json()) != json(input.width))
    return wrong(origin, "size",
                 fmt::format("the model's: height {}, width {}", input.height, input.width), *it);
  return {};
}

// One number for all channels, or one per channel.
Result<std::vector<double>> per_channel(const json& config, const char* key, uint32_t channels,
                                        double absent, const std::string& origin) {
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return std::vector<double>(channels, absent);
  if (it->is_number()) return std::vector<double>(channels, it->get<double>());
  std::vector<double> values;
  if (it->is_array() && it->size() == channels)
    for (const json& value : *it)
      if (value.is_number()) values.push_back(value.get<double>());
  if (values.size() != channels)
    return wrong(origin, key, fmt::format("a number or an array of {} numbers", channels), *it);
  return values;
}

Status check_processor(const json& config, const std::string& origin) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"}) {
    ITIF_ASSIGN(const std::string type, json_file::get_string_or(config, key, "", origin));
    if (type.empty() || type == "ViTImageProcessor" || type == "ViTFeatureExtractor" ||
        type == "ViTImageProcessorFast" || type == "ViTImageProcessorPil")
      continue;
    return fail(Code::kUnsupported,
                fmt::format("{}: '{}' must be ViTImageProcessor or ViTFeatureExtractor, found {}",
                            origin, key, json_file::shown(json(type))));
  }
  return {};
}

// transformers takes the type in config.json if the processor's own file has none.
Status check_model_processor(const json& config, const std::string& directory) {
  for (const char* key : {"image_processor_type", "feature_extractor_type"})
    if (const auto it = config.find(key); it != config.end() && !it->is_null()) return {};
  const std::string origin = directory + "/config.json";
  auto model = json_file::read_json_file(origin);
  if (!model && model.error().code == Code::kNotFound) return {};
  if (!model) return std::unexpected(model.error());
  model->erase("feature_extractor_type");  // not read there
  return check_processor(*model, origin);
}

// Steps that transformers 5 runs for any processor if they are set. Pictures of the model's size
// pass them unchanged.
Status check_more_steps(const json& config, const ImageInput& input, const std::string& origin) {
  const json size = {{"height", input.height}, {"width", input.width}};
  for (const auto& [step, size_key] :
       {std::pair{"do_center_crop", "crop_size"}, {"do_pad", "pad_size"}}) {
    ITIF_ASSIGN(const bool runs, json_file::get_bool_or(config, step, false, origin));
    if (!runs) continue;
    json to = config.value(size_key, json());
    if (to.is_number_integer()) to = {{"height", to}, {"width", to}};
    if (to != size)
      return fail(Code::kUnsupported,
                  fmt::format("{}: '{}' must be false, or '{}' the model's size {}, found {}",
                              origin, step, size_key, size.dump(), json_file::shown(to)));
  }
  return {};
}

}  // namespace

Result<ImageProcessing> read_image_processing(const std::string& directory,
                                              const ImageInput& input) {
  // transformers 5 takes the image processor in processor_config.json first.
  const std::string combined = directory + "/processor_config.json";
  if (::access(combined.c_str(), F_OK) == 0) {
    ITIF_ASSIGN(const json parts, json_file::read_json_file(combined));
    if (const auto part = parts.find("image_processor"); part != parts.end() && part->is_object()) {
      ITIF_TRY(check_model_processor(*part, directory));
      return parse_image_processing(*part, combined, input);
    }
  }
  const std::string origin = directory + "/preprocessor_config.json";
  ITIF_ASSIGN(const json config, json_file::read_json_file(origin));
  ITIF_TRY(check_model_processor(config, directory));
  return parse_image_processing(config, origin, input);
}

Result<ImageProcessing> parse_image_processing(const json& config, const std::string& origin,
                                               const ImageInput& input) {
  ITIF_TRY(check_processor(config, origin));
  ITIF_TRY(check_more_steps(config, input, origin));
  ImageProcessing processing;
  ITIF_ASSIGN(const bool resizes, json_file::get_bool_or_null(config, "do_resize", true, origin));
  if (resizes) {
    ITIF_TRY(check_set(config, "do_resize", {"size", "resample"}, origin));
    ITIF_TRY(check_size(config, input, origin));
    ITIF_ASSIGN(const uint32_t filter, json_file::get_uint_or(config, "resample", 0, 5, 2, origin));
    // Pillow resizes each channel independently only for these channel counts.
    if (input.channels == 1 || input.channels == 3)
      processing.resize = static_cast<ResizeFilter>(filter);
  }
  ITIF_ASSIGN(const bool rescales, json_file::get_bool_or_null(config, "do_rescale", true, origin));
  double factor = 1;
  if (rescales) {
    ITIF_TRY(check_set(config, "do_rescale", {"rescale_factor"}, origin));
    ITIF_ASSIGN(factor,
                json_file::get_number_or(config, "rescale_factor", -1e6, 1e6, 1.0 / 255, origin));
  }
  ITIF_ASSIGN(const bool normalizes,
              json_file::get_bool_or_null(config, "do_normalize", true, origin));
  std::vector<double> mean(input.channels, 0.0), deviation(input.channels, 1.0);
  if (normalizes) {
    ITIF_TRY(check_set(config, "do_normalize", {"image_mean", "image_std"}, origin));
    ITIF_ASSIGN(mean, per_channel(config, "image_mean", input.channels, 0.5, origin));
    ITIF_ASSIGN(deviation, per_channel(config, "image_std", input.channels, 0.5, origin));
  }
  for (uint32_t c = 0; c < input.channels; ++c) {
    processing.scale.push_back(static_cast<float>(factor / deviation[c]));
    processing.shift.push_back(static_cast<float>(-mean[c] / deviation[c]));
    if (!std::isfinite(processing.scale[c]) || !std::isfinite(processing.shift[c]))
      return wrong(origin, "image_std", "numbers that are not 0",
                   config.value("image_std", json()));
  }
  return processing;
}

}  // namespace itif::model
