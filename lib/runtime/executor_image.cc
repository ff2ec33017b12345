// Images on their way into a batch: checked when they are submitted, resized when it is their turn. A resize
// may cost as much as the model: whoever floods a group with large pictures pays for them with its turns,
// and only a batch's worth of resized ones is ever held.
#include <cstring>
#include <new>

#include "runtime/executor.h"

namespace itif::runtime {
namespace {

using wire::PayloadKind;
using wire::StatusCode;

bool has_size_of(const wire::ImagePrefix& picture, const model::ImageInput& input) noexcept {
  return picture.height == input.height && picture.width == input.width;
}

}  // namespace

bool GroupExecutor::prepare_image(request::Request* request,
                                  const model::TenantModel& model) noexcept {
  const auto refused = [&](StatusCode status, const char* detail) {
    refuse(request, status, detail);
    return false;
  };
  const bool is_f32 = request->payload_kind == PayloadKind::kImageF32;
  if (!is_f32 && request->payload_kind != PayloadKind::kImageU8)
    return refused(StatusCode::kUnsupportedKind, "the tenant's model takes images");
  if (!is_f32 && !model.images)
    return refused(StatusCode::kUnsupportedKind,
                   "the tenant's model came without preprocessor_config.json: send image_f32");
  wire::ImagePrefix picture;
  if (request->pieces.empty() || request->pieces.front().bytes < sizeof picture)
    return refused(StatusCode::kMalformed, "the payload is too short for an image");
  std::memcpy(&picture, request->pieces.front().data, sizeof picture);
  if (picture.height == 0 || picture.width == 0 || picture.channels == 0 || picture.reserved != 0)
    return refused(StatusCode::kMalformed,
                   "an image begins with height, width and channels, none of them 0, and a 0");
  if (wire::image_payload_bytes(request->payload_kind, picture) != request->payload_bytes)
    return refused(StatusCode::kMalformed,
                   "the payload is not as long as height, width and channels say");
  const model::ImageInput& input = model.spec.image;
  if (picture.channels != input.channels)
    return refused(StatusCode::kUnsupportedKind,
                   "the image does not have as many channels as the model takes");
  request->num_tokens = model.spec.max_tokens();
  if (has_size_of(picture, input)) return true;
  if (is_f32)
    return refused(StatusCode::kUnsupportedKind,
                   "f32 pixels are not resized, and these are not of the model's height and width");
  if (!model.images->resize)
    return refused(StatusCode::kUnsupportedKind,
                   "the image is not of the model's height and width, and the model's "
                   "preprocessor_config.json does not resize");
  static_assert(model::kMaxPictureSide == 8192, "as the message says");
  if (picture.height > model::kMaxPictureSide || picture.width > model::kMaxPictureSide)
    return refused(StatusCode::kTooLong, "an image to be resized has at most 8192 pixels a side");
  return true;
}

void GroupExecutor::resize_images(std::vector<request::Request*>& batch) noexcept {
  const model::ImageInput& input = group_.spec().image;
  std::erase_if(batch, [&](request::Request* request) {
    if (request->payload_kind != PayloadKind::kImageU8) return false;
    wire::ImagePrefix picture;
    std::memcpy(&picture, request->pieces.front().data, sizeof picture);
    return !has_size_of(picture, input) && !resize_image(request, picture);
  });
}

bool GroupExecutor::resize_image(request::Request* request,
                                 const wire::ImagePrefix& picture) noexcept {
  const model::ImageInput& input = group_.spec().image;
  const model::ResizeFilter filter = *group_.model(request->slot)->images->resize;
  if (!collect_payload(request) || !acquire_text(request)) return false;
  PreparedText& resized = texts_[request->prepared];
  try {
    resized.pixels.resize(input.values());
    resizer_.resize(std::as_bytes(std::span(text_)).subspan(sizeof picture),
                    {picture.height, picture.width, picture.channels}, filter,
                    {input.height, input.width, input.channels}, resized.pixels);
  } catch (const std::bad_alloc&) {
    refuse(request, StatusCode::kOverloaded, kNoMemoryToPrepare);
    return false;
  }
  resized.pixels_piece = {resized.pixels.data(), static_cast<uint32_t>(resized.pixels.size())};
  return true;
}

}  // namespace itif::runtime
