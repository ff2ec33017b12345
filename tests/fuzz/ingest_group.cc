#include "ingest_group.h"

#include <array>
#include <cstdlib>

#include "base/check.h"

namespace itif::fuzz {
namespace {

std::unique_ptr<pipeline::GroupInbox> make_inbox(uint32_t capacity,
                                                 const telemetry::ExecutorCounters& counters) {
  const std::array<uint32_t, 2> capacities = {capacity, capacity};  // of the stage's workers
  auto inbox = pipeline::GroupInbox::create("fuzz_group", capacities, counters);
  CHECK(inbox.has_value());
  return std::move(*inbox);
}

}  // namespace

IngestGroup::IngestGroup(uint32_t max_requests, Clients& clients, const Clock& clock)
    : clients_(clients), clock_(clock), inbox_(make_inbox(max_requests, counters_)) {}

void IngestGroup::take() {
  for (request::Request* request; inbox_->pop(&request, 1) == 1;) {
    clients_.check_delivered(*request);
    for (const Waiting& other : waiting_) CHECK(other.request != request);
    request->queued_ns = clock_.now_ns();
    waiting_.push_back({request});
  }
}

void IngestGroup::return_packets(pipeline::ReturnRing& returns, uint8_t which) {
  if (waiting_.empty()) return;
  Waiting& chosen = waiting_[which % waiting_.size()];
  if (!chosen.has_packets) return;
  chosen.has_packets = false;
  CHECK(returns.push_packets(chosen.request));
}

void IngestGroup::end(pipeline::ReturnRing& returns, uint8_t which, wire::StatusCode status,
                      uint32_t bytes) {
  if (waiting_.empty()) return;
  const auto chosen = waiting_.begin() + which % waiting_.size();
  request::Request& request = *chosen->request;
  waiting_.erase(chosen);
  if (request::take(request)) {
    request.chosen_ns = request.planned_ns = request.launched_ns = request.done_ns =
        clock_.now_ns();
    request.status = status;
    if (status == wire::StatusCode::kOk) {
      request.result_kind_out = wire::ResultKind::kText;
      request.result_rows = 1;
      request.num_tokens = 3;
      request.result = {static_cast<std::byte*>(std::malloc(bytes)), bytes};
      CHECK(bytes == 0 || request.result.data != nullptr);
      for (uint32_t i = 0; i < bytes; ++i)
        request.result.data[i] = payload_byte(request.request_id, i);
    } else {
      request.detail = "the input says so";
      request.retry_after_us = 1000;
    }
  }
  CHECK(returns.push(&request));
}

}  // namespace itif::fuzz
