// GenerationExecutor::submit's checks: what a payload says, against the model that is to run it; texts to
// token ids. Each refusal is the request's own status.
#include <algorithm>
#include <cstring>
#include <new>

#include "model/tokenizer.h"
#include "runtime/generation_executor.h"

namespace itif::runtime {
namespace {

using wire::PayloadKind;
using wire::ResultKind;
using wire::StatusCode;

constexpr const char* kNoMemory = "no memory to prepare the request";

bool ids_known(const request::Request& request, uint32_t id_bytes, uint32_t vocab) noexcept {
  for (const request::Piece& piece : request.pieces)
    for (uint32_t at = 0; at + id_bytes <= piece.bytes; at += id_bytes) {
      uint32_t id = 0;
      std::memcpy(&id, piece.data + at, id_bytes);
      if (id >= vocab) return false;
    }
  return true;
}

}  // namespace

void GenerationExecutor::release_text(request::Request* request) noexcept {
  if (request->prepared != 0) texts_.release(request->prepared);
  request->prepared = 0;
}

bool GenerationExecutor::prepare(request::Request* request,
                                 const model::TenantModel& model) noexcept {
  const ResultKind kind = request->result_kind;
  if (kind != ResultKind::kDefault && !supports(model.head.spec, kind)) {
    refuse(request, StatusCode::kUnsupportedKind,
           "the model generates: ask for tokens, text or nothing in particular");
    return false;
  }
  const bool wants_text =
      kind == ResultKind::kText ||
      (kind == ResultKind::kDefault && request->payload_kind == PayloadKind::kText);
  if (wants_text && !model.tokenizer) {
    refuse(request, StatusCode::kUnsupportedKind,
           "the tenant's model came without a vocabulary: send token ids and ask for tokens");
    return false;
  }
  switch (request->payload_kind) {
    case PayloadKind::kTokensU16:
    case PayloadKind::kTokensU32: return prepare_ids(request, model);
    case PayloadKind::kText: return prepare_text(request, model);
    default:
      refuse(request, StatusCode::kUnsupportedKind, "the tenant's model takes token ids or text");
      return false;
  }
}

bool GenerationExecutor::prepare_ids(request::Request* request,
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
  if ((request->flags & wire::kFlagSegments) != 0) {
    refuse(request, StatusCode::kUnsupportedKind, "the model has one token type only");
    return false;
  }
  if (!ids_known(*request, id_bytes, model.spec.vocab)) {
    refuse(request, StatusCode::kMalformed, "a token id is outside the model's vocabulary");
    return false;
  }
  return true;
}

bool GenerationExecutor::prepare_text(request::Request* request,
                                      const model::TenantModel& model) noexcept {
  // Pieces may split a character: the tokeniser needs the text in one place.
  text_.clear();
  request->prepared = texts_.acquire();
  if (request->prepared == 0) {
    refuse(request, StatusCode::kOverloaded, kNoMemory);
    return false;
  }
  try {
    text_.reserve(request->payload_bytes);
  } catch (const std::bad_alloc&) {
    refuse(request, StatusCode::kOverloaded, kNoMemory);
    return false;
  }
  for (const request::Piece& piece : request->pieces)
    text_.append(reinterpret_cast<const char*>(piece.data), piece.bytes);
  if (text_.find('\0') != std::string::npos) {
    refuse(request, StatusCode::kUnsupportedKind, "the model takes one text, not a pair");
    return false;
  }
  PreparedText& text = texts_[request->prepared];
  const model::EncodeOptions options{
      .max_tokens = std::min(model.max_text_tokens, options_.limits.max_tokens),
      .truncation = request->flags & wire::kFlagTruncate ? model::Truncation::kLongestFirst
                                                         : model::Truncation::kRefuse};
  switch (model.tokenizer->encode(text_, {}, options, text.ids, text.token_types)) {
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
  return true;
}

}  // namespace itif::runtime
