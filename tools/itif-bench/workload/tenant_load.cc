#include "workload/tenant_load.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

namespace itif::bench {

TenantLoad::TenantLoad(const std::vector<uint32_t>& slots, uint32_t num_tokens,
                       uint32_t batch_requests)
    : batch_requests_(batch_requests),
      ids_(num_tokens),
      requests_(slots.size()),
      segments_(slots.size()) {
  for (uint32_t i = 0; i < num_tokens; ++i) ids_[i] = 100 + 7 * i;
  piece_ = {reinterpret_cast<const std::byte*>(ids_.data()),
            static_cast<uint32_t>(ids_.size() * sizeof(uint32_t))};
  for (size_t i = 0; i < slots.size(); ++i) {
    request::Request& request = requests_[i];
    request.slot = slots[i];
    request.payload_kind = wire::PayloadKind::kTokensU32;
    request.result_kind = wire::ResultKind::kLogits;
    request.num_tokens = num_tokens;
    request.payload_bytes = piece_.bytes;
    request.pieces = {&piece_, 1};
    segments_[i].request = &request;
  }
}

Status TenantLoad::run(runtime::EncoderGroup& group, device::Stream& stream) {
  drop_results();
  const std::span<const runtime::BatchRequest> all(segments_);
  for (size_t first = 0; first < all.size(); first += batch_requests_) {
    runtime::Batch batch{all.subspan(first, std::min<size_t>(batch_requests_, all.size() - first))};
    ITIF_TRY(group.forward(stream, batch));
  }
  for (const request::Request& request : requests_)
    if (request.status != wire::StatusCode::kOk) return fail(Code::kInternal, request.detail);
  return {};
}

std::vector<float> TenantLoad::logits(size_t request) const {
  const auto& result = requests_[request].result;
  std::vector<float> values(result.bytes / sizeof(float));
  std::memcpy(values.data(), result.data, values.size() * sizeof(float));
  return values;
}

void TenantLoad::drop_results() {
  for (request::Request& request : requests_) {
    std::free(request.result.data);
    request.result = {};
  }
}

}  // namespace itif::bench
