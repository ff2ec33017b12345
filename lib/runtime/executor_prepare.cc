// GroupExecutor::submit's checks: what a payload says, against the model that is to run it; texts to
// token ids (images: executor_image.cc). Each refusal is the request's own status.
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

}  // namespace

bool GroupExecutor::acquire_text(request::Request* request) noexcept {
  request->prepared = texts_.acquire();
  if (request->prepared != 0) return true;
  refuse(request, StatusCode::kOverloaded, kNoMemoryToPrepare);
  return false;
}

// Into text_.
bool GroupExecutor::collect_payload(request::Request* request) noexcept {
  text_.clear();
  if (request->payload_bytes > text_.capacity()) {
    try {
      text_.reserve(request->payload_bytes);
    } catch (const std::bad_alloc&) {
      refuse(request, StatusCode::kOverloaded, kNoMemoryToPrepare);
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

}  // namespace itif::runtime
