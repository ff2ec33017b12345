#include "runtime/input_preparation.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "text/tokenizer.h"
#include "wire/payload.h"

namespace itif::runtime {
namespace {

using wire::PayloadKind;
using wire::StatusCode;

constexpr Refusal kNoMemory = {StatusCode::kOverloaded, "no memory to prepare the request"};
constexpr Refusal kOneType = {StatusCode::kUnsupportedKind, "the model has one token type only"};

// Calls body(id) for each of a request's ids.
template <class Body>
void for_each_id(const request::Request& request, uint32_t id_bytes, const Body& body) noexcept {
  for (const request::Piece& piece : request.pieces)
    for (uint32_t at = 0; at + id_bytes <= piece.bytes; at += id_bytes) {
      uint32_t id = 0;
      std::memcpy(&id, piece.data + at, id_bytes);
      body(id);
    }
}

bool has_size_of(const wire::ImagePrefix& picture, const model::ImageInput& input) noexcept {
  return picture.height == input.height && picture.width == input.width;
}

}  // namespace

InputPreparation::InputPreparation(const InputOptions& options)
    : options_(options),
      texts_(options.image.channels != 0 ? 0 : options.max_tokens, options.image.values()) {
  payload_.reserve(options.text_bytes);
}

void InputPreparation::release(request::Request& request) noexcept {
  if (request.prepared != 0) texts_.release(request.prepared);
  request.prepared = 0;
}

Refusal InputPreparation::make(request::Request& request) noexcept {
  request.prepared = texts_.acquire();
  return request.prepared != 0 ? Refusal{} : kNoMemory;
}

// Copies the pieces into payload_: they may split a character, or a row of pixels.
Refusal InputPreparation::collect(const request::Request& request) noexcept {
  payload_.clear();
  try {
    payload_.reserve(request.payload_bytes);
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
  for (const request::Piece& piece : request.pieces)
    payload_.append(reinterpret_cast<const char*>(piece.data), piece.bytes);
  return {};
}

Refusal InputPreparation::prepare(request::Request& request,
                                  const model::TenantModel& model) noexcept {
  if (model.spec.takes_images()) return prepare_image(request, model);
  switch (request.payload_kind) {
    case PayloadKind::kTokensU16:
    case PayloadKind::kTokensU32: return prepare_ids(request, model);
    case PayloadKind::kText: return prepare_text(request, model);
    default: return {StatusCode::kUnsupportedKind, "the tenant's model takes token ids or text"};
  }
}

Refusal InputPreparation::prepare_ids(request::Request& request,
                                      const model::TenantModel& model) noexcept {
  const uint32_t id_bytes = request.payload_kind == PayloadKind::kTokensU32 ? 4 : 2;
  if (request.payload_bytes == 0 || request.payload_bytes % id_bytes != 0)
    return {StatusCode::kMalformed, "the payload is not a whole, positive number of token ids"};
  request.num_tokens = request.payload_bytes / id_bytes;
  if (request.num_tokens > std::min(model.max_tokens, options_.max_tokens))
    return {StatusCode::kTooLong, "more tokens than the model has positions"};
  if ((request.flags & wire::kFlagSegments) != 0) return prepare_types(request, model, id_bytes);
  if (!options_.generates) return {};
  bool known = true;
  for_each_id(request, id_bytes, [&](uint32_t id) { known &= id < model.spec.vocab; });
  if (!known) return {StatusCode::kMalformed, "a token id is outside the model's vocabulary"};
  return {};
}

// Token types depend on the first separator, so the ids are read here; they stay in place.
Refusal InputPreparation::prepare_types(request::Request& request, const model::TenantModel& model,
                                        uint32_t id_bytes) noexcept {
  if (options_.generates) return kOneType;
  if (!model.tokenizer)
    return {StatusCode::kUnsupportedKind,
            "the segments flag needs a vocabulary, and the tenant's model came without one"};
  if (const Refusal none = make(request)) return none;
  const auto separator = static_cast<uint32_t>(model.tokenizer->separator_id());
  std::vector<uint8_t>& types = texts_[request.prepared].token_types;
  uint8_t type = 0;
  for_each_id(request, id_bytes, [&](uint32_t id) {
    types.push_back(type);
    if (id == separator) type = 1;
  });
  return type == 1 && model.spec.type_vocab < 2 ? kOneType : Refusal{};
}

Refusal InputPreparation::prepare_text(request::Request& request,
                                       const model::TenantModel& model) noexcept {
  if (!model.tokenizer)
    return {StatusCode::kUnsupportedKind,
            "the tenant's model came without a vocabulary: send token ids"};
  if (const Refusal none = collect(request)) return none;
  std::string_view first = payload_;
  std::optional<std::string_view> second;
  if (const size_t zero = first.find('\0'); zero != std::string_view::npos) {
    if (options_.generates)
      return {StatusCode::kUnsupportedKind, "the model takes one text, not a pair"};
    second = first.substr(zero + 1);
    first = first.substr(0, zero);
  }
  if (const Refusal none = make(request)) return none;
  PreparedInput& text = texts_[request.prepared];
  const text::EncodeOptions options{
      .max_tokens = std::min(model.max_text_tokens, options_.max_tokens),
      .truncation = request.flags & wire::kFlagTruncate ? text::Truncation::kLongestFirst
                                                        : text::Truncation::kRefuse};
  switch (model.tokenizer->encode(first, second, options, text.ids, text.token_types)) {
    case text::EncodeStatus::kOk: break;
    case text::EncodeStatus::kMalformed:
      return {StatusCode::kMalformed, "the text is not valid UTF-8"};
    case text::EncodeStatus::kTooLong:
      return {StatusCode::kTooLong,
              "the text has more tokens than the model takes; the truncate flag cuts it"};
  }
  request.num_tokens = static_cast<uint32_t>(text.ids.size());
  if (model.spec.type_vocab >= 2) return {};
  if (second && model.spec.type_vocab == 1)
    return {StatusCode::kUnsupportedKind, "the model has one token type: send one text"};
  text.token_types.clear();
  return {};
}

Refusal InputPreparation::prepare_image(request::Request& request,
                                        const model::TenantModel& model) noexcept {
  const bool is_f32 = request.payload_kind == PayloadKind::kImageF32;
  if (!is_f32 && request.payload_kind != PayloadKind::kImageU8)
    return {StatusCode::kUnsupportedKind, "the tenant's model takes images"};
  if (!is_f32 && !model.images)
    return {StatusCode::kUnsupportedKind,
            "the tenant's model came without preprocessor_config.json: send image_f32"};
  wire::ImagePrefix picture;
  if (request.pieces.empty() || request.pieces.front().bytes < sizeof picture)
    return {StatusCode::kMalformed, "the payload is too short for an image"};
  std::memcpy(&picture, request.pieces.front().data, sizeof picture);
  if (picture.height == 0 || picture.width == 0 || picture.channels == 0 || picture.reserved != 0)
    return {
        StatusCode::kMalformed,
        "an image must begin with height, width and channels, none of them 0, and a reserved 0"};
  if (wire::image_payload_bytes(request.payload_kind, picture) != request.payload_bytes)
    return {StatusCode::kMalformed, "the payload is not as long as height, width and channels say"};
  const model::ImageInput& input = model.spec.image;
  if (picture.channels != input.channels)
    return {StatusCode::kUnsupportedKind,
            "the image does not have as many channels as the model takes"};
  request.num_tokens = model.spec.max_tokens();
  if (has_size_of(picture, input)) return {};
  if (is_f32)
    return {StatusCode::kUnsupportedKind,
            "f32 pixels are not resized: send an image of the model's height and width"};
  if (!model.images->resize)
    return {StatusCode::kUnsupportedKind,
            "the image is not of the model's height and width, and the model's "
            "preprocessor_config.json does not resize"};
  static_assert(model::kMaxPictureSide == 8192, "as the message says");
  if (picture.height > model::kMaxPictureSide || picture.width > model::kMaxPictureSide)
    return {StatusCode::kTooLong, "an image to resize may have at most 8192 pixels per side"};
  return {};
}

Refusal InputPreparation::resize(request::Request& request,
                                 const model::TenantModel& model) noexcept {
  if (request.payload_kind != PayloadKind::kImageU8) return {};
  const model::ImageInput& input = options_.image;
  wire::ImagePrefix picture;
  std::memcpy(&picture, request.pieces.front().data, sizeof picture);
  if (has_size_of(picture, input)) return {};
  if (const Refusal none = collect(request)) return none;
  if (const Refusal none = make(request)) return none;
  PreparedInput& resized = texts_[request.prepared];
  try {
    resized.pixels.resize(input.values());
    resizer_.resize(std::as_bytes(std::span(payload_)).subspan(sizeof picture),
                    {picture.height, picture.width, picture.channels}, *model.images->resize,
                    {input.height, input.width, input.channels}, resized.pixels);
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  }
  resized.pixels_piece = {resized.pixels.data(), static_cast<uint32_t>(resized.pixels.size())};
  return {};
}

}  // namespace itif::runtime
