#include "runtime/generate/generated_result.h"

#include <string>

#include "runtime/result_bytes.h"

namespace itif::runtime {
namespace {

using wire::ResultKind;
using wire::StatusCode;

bool wants_text(const request::Request& request) noexcept {
  return request.result_kind == ResultKind::kText ||
         (request.result_kind == ResultKind::kDefault &&
          request.payload_kind == wire::PayloadKind::kText);
}

}  // namespace

Refusal check_result_kind(const request::Request& request,
                          const model::TenantModel& model) noexcept {
  const ResultKind kind = request.result_kind;
  if (kind != ResultKind::kDefault && !supports(model.head.spec, kind))
    return {StatusCode::kUnsupportedKind,
            "the model generates: ask for tokens, text or the default result"};
  if (wants_text(request) && !model.tokenizer)
    return {StatusCode::kUnsupportedKind,
            "the tenant's model came without a vocabulary: send token ids and ask for tokens"};
  return {};
}

void write_result(request::Request& request, const model::TenantModel& model,
                  std::span<const int32_t> ids) noexcept {
  if (wants_text(request)) {
    const std::string text = model.tokenizer->decode(ids);
    request.result = copy_of(std::as_bytes(std::span(text)));
    request.result_rows = 1;
    request.result_kind_out = ResultKind::kText;
  } else {
    request.result = copy_of(std::as_bytes(ids));
    request.result_rows = static_cast<uint32_t>(ids.size());
    request.result_kind_out = ResultKind::kTokens;
  }
  request.status = request.result.data ? StatusCode::kOk : StatusCode::kOverloaded;
  request.detail = request.result.data ? "" : "no memory for the result";
}

}  // namespace itif::runtime
