// What stands between a picture and a model's pixel values, as preprocessor_config.json says it: the steps
// of transformers' ViTImageProcessor, in its order: resize, rescale, normalise. The last two are one
// multiplication and one addition a value, which the device does where it reads the pixels.
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
  // Of images of another size than the model's; none: they are refused.
  std::optional<ResizeFilter> resize;
  // Pixel value = u8 · scale[channel] + shift[channel].
  std::vector<float> scale, shift;  // [channels]
};

// From the preprocessor_config.json of `directory`; what it leaves out is as in transformers. Errors:
// kNotFound, kCorrupt, kInvalidArgument (a field of the wrong type, or a size that is not the model's),
// kUnsupported (another processor, or a step that this build does not do, by name).
Result<ImageProcessing> read_image_processing(const std::string& directory,
                                              const ImageInput& input);
// The same of a file that has been read; `origin` names it in errors.
Result<ImageProcessing> parse_image_processing(const nlohmann::json& config,
                                               const std::string& origin, const ImageInput& input);

}  // namespace itif::model
