#include "workload/tenant_load.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/check.h"

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
  return run(group, stream, 0, requests_.size());
}

Status TenantLoad::run_next(runtime::EncoderGroup& group, device::Stream& stream) {
  const size_t first = next_, count = std::min<size_t>(batch_requests_, requests_.size() - first);
  next_ = first + count == requests_.size() ? 0 : first + count;
  return run(group, stream, first, count);
}

Status TenantLoad::run(runtime::EncoderGroup& group, device::Stream& stream, size_t first,
                       size_t count) {
  drop_results();
  const auto chosen = std::span<const runtime::BatchRequest>(segments_).subspan(first, count);
  for (size_t i = 0; i < count; i += batch_requests_) {
    runtime::Batch batch{chosen.subspan(i, std::min<size_t>(batch_requests_, count - i))};
    ITIF_TRY(group.forward(stream, batch));
  }
  for (const runtime::BatchRequest& segment : chosen)
    if (segment.request->status != wire::StatusCode::kOk)
      return fail(Code::kInternal, segment.request->detail);
  return {};
}

size_t TenantLoad::num_batch_tokens() const {
  const size_t requests = std::min<size_t>(batch_requests_, requests_.size());
  CHECK(requests_.size() % requests == 0);
  return requests * ids_.size();
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
