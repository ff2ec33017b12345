// GroupExecutor::submit's checks: what a payload says, against the model that is to run it; texts to
// token ids, images to the model's size. Each refusal is the request's own status.
#include <algorithm>
#include <cstring>
#include <new>

#include "model/tokenizer.h"
#include "runtime/executor.h"

namespace itif::runtime {
namespace {

using wire::PayloadKind;
using wire::StatusCode;

int32_t read_id(const std::byte* data, uint32_t i, uint32_t id_bytes) noexcept {
  if (id_bytes == 4) {
    int32_t id;
    std::memcpy(&id, data + size_t{i} * 4, 4);
    return id;
  }
  uint16_t id;
  std::memcpy(&id, data + size_t{i} * 2, 2);
  return id;
}

constexpr const char* kNoMemory = "no memory to prepare the request";

}  // namespace

bool GroupExecutor::acquire_text(request::Request* request) noexcept {
  request->prepared = texts_.acquire();
  if (request->prepared != 0) return true;
  refuse(request, StatusCode::kOverloaded, kNoMemory);
  return false;
}

// Into text_.
bool GroupExecutor::collect_payload(request::Request* request) noexcept {
  text_.clear();
  if (request->payload_bytes > text_.capacity()) {
    try {
      text_.reserve(request->payload_bytes);
    } catch (const std::bad_alloc&) {
      refuse(request, StatusCode::kOverloaded, kNoMemory);
      return false;
    }
  }
  for (const request::Piece& piece : request->pieces)
    text_.append(reinterpret_cast<const char*>(piece.data), piece.bytes);
  return true;
}

bool GroupExecutor::prepare(request::Request* request) noexcept {
  const model::TenantModel* model = group_.model(request->slot);
  if (model == nullptr) {
    refuse(request, StatusCode::kNotAdmitted, "the tenant's model is not loaded");
    return false;
  }
  if (model->spec.takes_images()) return prepare_image(request, *model);
  switch (request->payload_kind) {
    case PayloadKind::kTokensU16:
    case PayloadKind::kTokensU32: return prepare_ids(request, *model);
    case PayloadKind::kText: return prepare_text(request, *model);
    default:
      refuse(request, StatusCode::kUnsupportedKind, "the tenant's model takes token ids or text");
      return false;
  }
}

bool GroupExecutor::prepare_ids(request::Request* request,
                                const model::TenantModel& model) noexcept {
  const uint32_t id_bytes = request->payload_kind == PayloadKind::kTokensU32 ? 4 : 2;
  if (request->payload_bytes == 0 || request->payload_bytes % id_bytes != 0) {
    refuse(request, StatusCode::kMalformed,
           "the payload is not a whole, positive number of token ids");
    return false;
  }
  request->num_tokens = request->payload_bytes / id_bytes;
  if (request->num_tokens > std::min(model.max_tokens, options_.limits.max_tokens)) {
    refuse(request, StatusCode::kTooLong, "more tokens than the model has positions");
    return false;
  }
  if ((request->flags & wire::kFlagSegments) == 0) return true;

  // Token types follow the first separator, so the ids have to be looked at; they stay in place.
  if (!model.tokenizer) {
    refuse(request, StatusCode::kUnsupportedKind,
           "the segments flag needs a vocabulary, and the tenant's model came without one");
    return false;
  }
  const int32_t separator = model.tokenizer->separator_id();
  if (!acquire_text(request)) return false;
  std::vector<uint8_t>& types = texts_[request->prepared].token_types;
  uint8_t type = 0;
  for (const request::Piece& piece : request->pieces) {
    for (uint32_t i = 0; i < piece.bytes / id_bytes; ++i) {
      types.push_back(type);
      if (read_id(piece.data, i, id_bytes) == separator) type = 1;
    }
  }
  if (type == 1 && model.spec.type_vocab < 2) {
    refuse(request, StatusCode::kUnsupportedKind, "the model has one token type only");
    return false;
  }
  return true;
}

bool GroupExecutor::prepare_text(request::Request* request,
                                 const model::TenantModel& model) noexcept {
  if (!model.tokenizer) {
    refuse(request, StatusCode::kUnsupportedKind,
           "the tenant's model came without a vocabulary: send token ids");
    return false;
  }
  // Pieces may split a character: the tokeniser needs the text in one place.
  if (!collect_payload(request)) return false;
  std::string_view first = text_;
  std::optional<std::string_view> second;
  if (const size_t zero = first.find('\0'); zero != std::string_view::npos) {
    second = first.substr(zero + 1);
    first = first.substr(0, zero);
  }
  if (!acquire_text(request)) return false;
  PreparedText& text = texts_[request->prepared];
  const model::EncodeOptions options{
      .max_tokens = std::min(model.max_text_tokens, options_.limits.max_tokens),
      .truncation = request->flags & wire::kFlagTruncate ? model::Truncation::kLongestFirst
                                                         : model::Truncation::kRefuse};
  switch (model.tokenizer->encode(first, second, options, text.ids, text.token_types)) {
    case model::EncodeStatus::kOk: break;
    case model::EncodeStatus::kMalformed:
      refuse(request, StatusCode::kMalformed, "the text is not valid UTF-8");
      return false;
    case model::EncodeStatus::kTooLong:
      refuse(request, StatusCode::kTooLong,
             "the text has more tokens than the model takes; the truncate flag cuts it");
      return false;
  }
  request->num_tokens = static_cast<uint32_t>(text.ids.size());
  if (model.spec.type_vocab < 2) {
    if (second && model.spec.type_vocab == 1) {
      refuse(request, StatusCode::kUnsupportedKind, "the model has one token type: send one text");
      return false;
    }
    text.token_types.clear();
  }
  return true;
}

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
  if (picture.height == input.height && picture.width == input.width) return true;
  if (is_f32)
    return refused(StatusCode::kUnsupportedKind,
                   "f32 pixels are not resized, and these are not of the model's height and width");
  if (!model.images->resize)
    return refused(StatusCode::kUnsupportedKind,
                   "the image is not of the model's height and width, and the model's "
                   "preprocessor_config.json does not resize");
  if (picture.height > model::kMaxPictureSide || picture.width > model::kMaxPictureSide)
    return refused(StatusCode::kTooLong, "an image to be resized has at most 8192 pixels a side");
  return resize_image(request, model, picture);
}

bool GroupExecutor::resize_image(request::Request* request, const model::TenantModel& model,
                                 const wire::ImagePrefix& picture) noexcept {
  static_assert(model::kMaxPictureSide == 8192, "as the message says");
  const model::ImageInput& input = model.spec.image;
  if (!collect_payload(request) || !acquire_text(request)) return false;
  PreparedText& resized = texts_[request->prepared];
  try {
    resized.pixels.resize(input.values());
    resizer_.resize(std::as_bytes(std::span(text_)).subspan(sizeof picture),
                    {picture.height, picture.width, picture.channels}, *model.images->resize,
                    {input.height, input.width, input.channels}, resized.pixels);
  } catch (const std::bad_alloc&) {
    refuse(request, StatusCode::kOverloaded, kNoMemory);
    return false;
  }
  resized.pixels_piece = {resized.pixels.data(), static_cast<uint32_t>(resized.pixels.size())};
  return true;
}

}  // namespace itif::runtime
