// The result of a generated sequence: token ids, or their text.
#pragma once

#include <cstdint>
#include <span>

#include "model/tenant_model.h"
#include "request/request.h"
#include "runtime/input_preparation.h"

namespace itif::runtime {

// Returns why the model cannot give the kind of result that the request asks for.
Refusal check_result_kind(const request::Request& request,
                          const model::TenantModel& model) noexcept;
// Writes the request's result and status. `ids`: the generated tokens. REQUIRES:
// check_result_kind() has found nothing.
void write_result(request::Request& request, const model::TenantModel& model,
                  std::span<const int32_t> ids) noexcept;

}  // namespace itif::runtime
