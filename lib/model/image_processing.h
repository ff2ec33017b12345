// The preprocessing from a picture to a model's pixel values, as preprocessor_config.json defines
// it: the steps of transformers' ViTImageProcessor, in its order: resize, rescale, normalise. The
// last two are one multiplication and one addition per value; the device does them when it reads
// the pixels.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/image_resize.h"
#include "model/spec.h"

namespace itif::model {

struct ImageProcessing {
  // Filter for images that do not have the model's size; empty: they are refused.
  std::optional<ResizeFilter> resize;
  // Pixel value = u8 · scale[channel] + shift[channel].
  std::vector<float> scale, shift;  // [channels]
};

// Reads the preprocessor_config.json of `directory`, and the processor's type from config.json if
// that file has none. Absent fields have transformers' defaults.
// Errors: kNotFound, kCorrupt, kInvalidArgument (a field of the wrong type, or a size that is not
// the model's), kUnsupported (another processor, or a step that this build does not support, by
// name).
Result<ImageProcessing> read_image_processing(const std::string& directory,
                                              const ImageInput& input);
// Same, from a file's contents; `origin` names it in errors.
Result<ImageProcessing> parse_image_processing(const nlohmann::json& config,
                                               const std::string& origin, const ImageInput& input);

}  // namespace itif::model
