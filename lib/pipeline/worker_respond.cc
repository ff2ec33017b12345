// Answers: results and statuses of requests, refusals of datagrams, retransmitted responses.
#include "net/transmit.h"
#include "pipeline/worker.h"
#include "telemetry/version_counts.h"
#include "wire/geometry.h"
#include "wire/payload.h"

namespace itif::pipeline {

using net::DropReason;
using net::Outcome;
using wire::StatusCode;

namespace {

// Returns true for statuses that any request would get now. They say nothing about the model.
bool is_temporary(StatusCode status) noexcept {
  switch (status) {
    case StatusCode::kOverloaded:
    case StatusCode::kOverQuota:
    case StatusCode::kDraining:
    case StatusCode::kNotAdmitted: return true;
    default: return false;
  }
}

// Returns true for statuses that a repeat of the request would get again. The others are not
// cached, because a retry may succeed.
bool is_final(StatusCode status) noexcept {
  return !is_temporary(status) && status != StatusCode::kInternal;
}

bool is_deadline(StatusCode status) noexcept {
  return status == StatusCode::kDeadlineReassembly || status == StatusCode::kDeadlineQueue ||
         status == StatusCode::kDeadlineLaunch;
}

}  // namespace

void Worker::send_datagram(wire::Header header, std::span<const std::byte> payload,
                           const wire::Key& key, const net::Endpoint& peer) noexcept {
  if (header.type != wire::Type::kPong && header.type != wire::Type::kToken)
    header.sequence = next_sequence_++;
  rte_mbuf* mbuf =
      net::build_datagram(header, payload, key, peer, options_.pool, port_.info().tx_offloads);
  if (mbuf == nullptr) {
    counters_.send_no_mbuf.add();
    return;
  }
  tx_.push(mbuf);
}

wire::Header Worker::answer_header(const net::Context& context, wire::Type type) const noexcept {
  wire::Header header;
  header.type = type;
  header.auth = context.auth;
  header.key_epoch = context.key_epoch;
  header.tenant_id = context.request.tenant_id;
  header.session = context.request.session;
  header.request_id = context.request.request_id;
  return header;
}

// Drops a datagram under `reason`, and answers it with a status if it may be a request's first
// piece. The answer to an unproven address is never longer than its datagram.
Outcome Worker::refuse(const Arrived& arrived, const Verified& verified, DropReason reason,
                       StatusCode status, const char* detail, uint32_t retry_after_us) noexcept {
  const wire::Header& asked = arrived.datagram.header;
  if (asked.offset != 0) return Outcome::dropped(reason);
  const bool is_proven = verified.refusal == DropReason::kNone;
  if (!is_proven && !unproven_.allow(arrived.frame.peer, now_ns_))
    return Outcome::dropped(DropReason::kReplyRate);
  wire::Header header = wire::reply_header(asked, wire::Type::kStatus);
  header.status = status;
  header.aux = retry_after_us;
  if (status == StatusCode::kTokenRequired)
    header.token = token_of(arrived, now_ns_ / kTokenPeriodNs);
  const size_t room = is_proven ? wire::kMaxDetailBytes : arrived.datagram.payload.size();
  static constexpr wire::Key kNoKey{};
  const wire::Key* key = &kNoKey;
  if (verified.is_authentic()) {
    key = verified.key;
    tenants_[verified.tenant->index].statuses[static_cast<size_t>(status)].add();
    // Without a token it is no request yet: the client repeats it with the one that it gets.
    if (status != StatusCode::kTokenRequired && shared_.tracer.wants(asked.tenant_id))
      trace_refused(asked, status);
  } else {
    header.auth = wire::Auth::kNone;  // there is no shared key to authenticate with
    header.key_epoch = 0;
  }
  counters_.statuses.add();
  send_datagram(header, wire::detail_payload(detail, room), *key, arrived.frame.peer);
  return Outcome::dropped(reason);
}

// Records a request that was refused on arrival. A refused request has no stages but the last two.
void Worker::trace_refused(const wire::Header& asked, StatusCode status) noexcept {
  request::Times times;
  times.arrival_ns = now_ns_;
  times.first_out_ns = times.last_out_ns = shared_.clock.now_ns();
  shared_.tracer.add(asked.tenant_id,
                     {asked.request_id, asked.session, 0, options_.id, status, times});
}

// As refuse(), for a limit of the model that would have answered.
Outcome Worker::refuse_for_model(const tenant::ServedModel& model, const Arrived& arrived,
                                 const Verified& verified, DropReason reason, StatusCode status,
                                 const char* detail) noexcept {
  if (arrived.datagram.header.offset == 0 && model.lease->counts)
    model.lease->counts->add_error(options_.id);
  return refuse(arrived, verified, reason, status, detail);
}

// Refuses a request that waits past its deadline. The group still has its packets, and gives them
// back later. A request that runs already is answered, even if late.
void Worker::expire(net::Context& context) noexcept {
  request::Request& request = context.request;
  if (!request::expire(request)) return;
  request.status = StatusCode::kDeadlineQueue;
  request.detail = "the deadline passed in the group's queue";
  respond_status(context);
}

// Answers a client that repeats a complete request: says that the request waits or runs and when to
// ask again, or repeats the refusal if the request has expired.
void Worker::answer_repeat(net::Context& context, const net::Endpoint& peer) noexcept {
  if (request::has_expired(context.request)) {
    wire::Header header = answer_header(context, wire::Type::kStatus);
    header.status = context.request.status;
    return send_datagram(header,
                         wire::detail_payload(context.request.detail, wire::kMaxDetailBytes),
                         context.key_bytes, peer);
  }
  const GroupInbox* inbox = shared_.groups.find(context.request.group);
  wire::Header busy = answer_header(context, wire::Type::kBusy);
  constexpr uint64_t kLongestNs = 1'000'000'000;
  busy.aux = inbox ? inbox->num_waiting() : 0;
  busy.budget_us =
      static_cast<uint32_t>(std::min(inbox ? inbox->wait_ns(now_ns_) : 0, kLongestNs) / 1000);
  send_datagram(busy, {}, context.key_bytes, peer);
}

// Releases a request that the executor has returned, and answers it unless it has expired.
void Worker::finish(net::Context& context) noexcept {
  if (!request::has_expired(context.request) &&
      (context.request.status != StatusCode::kOk || !respond(context)))
    respond_status(context);
  account_end(context);
  take_packets(context);
  release(context);
}

// Frees a request's packets, which have been read or never will be.
void Worker::take_packets(net::Context& context) noexcept {
  const uint32_t index = context.request.tenant_index;
  const uint32_t pieces = reassembler_.release_pieces(context);
  counters_.forwarded.add(pieces);
  tenants_[index].forwarded.add(pieces);
  tenants_[index].held.set(reassembler_.tenant_held_pieces(index));
}

// Frees the context; returns the number of pieces that it held.
uint32_t Worker::release(net::Context& context) noexcept {
  const uint32_t index = context.request.tenant_index;
  const uint32_t pieces = reassembler_.release(context);
  tenants_[index].held.set(reassembler_.tenant_held_pieces(index));
  return pieces;
}

// Abandons an incomplete request; its pieces count as dropped.
void Worker::give_up(net::Context& context, DropReason reason, StatusCode status,
                     const char* detail) noexcept {
  context.request.status = status;
  context.request.detail = detail;
  respond_status(context);
  forget(context, reason);
}

// Releases an incomplete request without an answer; its pieces count as dropped. REQUIRES: its
// status says why.
void Worker::forget(net::Context& context, DropReason reason) noexcept {
  account_end(context);
  telemetry::TenantCounters& tenant = tenants_[context.request.tenant_index];
  const uint32_t pieces = release(context);
  counters_.dropped[static_cast<size_t>(reason)].add(pieces);
  tenant.dropped[static_cast<size_t>(reason)].add(pieces);
}

// Queues the response for transmission. Returns false if there is no room; the request's status
// then says so.
bool Worker::respond(net::Context& context) noexcept {
  request::Request& request = context.request;
  wire::Header header = answer_header(context, wire::Type::kResponse);
  header.result_kind = request.result_kind_out;
  header.total_bytes = request.result.bytes;
  header.fragment_bytes = static_cast<uint16_t>(wire::response_fragment_bytes(
      net::fragment_bytes_for(options_.path_mtu, context.peer.ip_version, context.auth),
      context.fragment_bytes));
  header.aux = request.result_rows;
  header.token = next_sequence_;  // unique: the response's datagrams use the numbers from here
  if ((request.flags & wire::kFlagModelVersion) != 0)
    wire::set_model_version(header, context.model_version);
  header.budget_us = static_cast<uint32_t>((answer_ns_ - request.arrival_ns) / 1000);
  net::CachedResponse* entry = cache_.put({.key = context.key(),
                                           .header = header,
                                           .result = request.result,
                                           .tenant_index = request.tenant_index,
                                           .keep = (request.flags & wire::kFlagNoCache) == 0,
                                           .now_ns = now_ns_});
  request.result = {};
  net::TransmitQueue::Job* job = entry != nullptr ? transmit_.push(*entry) : nullptr;
  if (job == nullptr) {
    counters_.transmit_refused.add();
    request.status = StatusCode::kOverloaded;
    request.detail = "this tenant's responses are requested faster than they can be sent";
    request.retry_after_us = 20'000;
    return false;
  }
  job->header = header;
  job->peer = context.peer;
  job->key = context.key_bytes;
  job->cursor = net::Cursor::whole(header);
  if (options_.stamps_stages) {
    job->times = request::times_of(request);
    job->num_tokens = request.num_tokens;
  }
  counters_.responses.add();
  tenants_[request.tenant_index].responses.add();
  return true;
}

void Worker::respond_status(net::Context& context) noexcept {
  request::Request& request = context.request;
  wire::Header header = answer_header(context, wire::Type::kStatus);
  header.status = request.status;
  header.aux = request.retry_after_us;
  counters_.statuses.add();
  tenants_[request.tenant_index].statuses[static_cast<size_t>(request.status)].add();
  if (is_deadline(request.status)) {
    tenants_[request.tenant_index].deadline_missed.add();
    const uint64_t sent_ns = shared_.clock.now_ns();
    if (sent_ns >= request.deadline_ns) stages_.add_expired(sent_ns - request.deadline_ns);
  }
  send_datagram(header, wire::detail_payload(request.detail, wire::kMaxDetailBytes),
                context.key_bytes, context.peer);
  if (!is_final(request.status) || (request.flags & wire::kFlagNoCache) != 0) return;
  if (net::CachedResponse* entry = cache_.put({.key = context.key(),
                                               .header = header,
                                               .result = {},
                                               .tenant_index = request.tenant_index,
                                               .keep = true,
                                               .now_ns = now_ns_,
                                               .detail = request.detail}))
    cache_.unpin(*entry);
}

void Worker::account_end(net::Context& context) noexcept {
  request::Request& request = context.request;
  telemetry::VersionCounts* version = context.version_counts;  // the lease keeps it alive
  if (version != nullptr && request.status == StatusCode::kOk)
    version->add_answer(options_.id, answer_ns_ - request.arrival_ns);
  else if (version != nullptr && is_temporary(request.status))
    version->add_refused(options_.id);
  else if (version != nullptr)
    version->add_error(options_.id);
  request.in_flight->remove();
  if (request.status != StatusCode::kOk) {
    if (shared_.tracer.wants(request.tenant_id)) {
      request::Times times = request::times_of(request);
      times.first_out_ns = times.last_out_ns = shared_.clock.now_ns();
      shared_.tracer.add(request.tenant_id,
                         {request.request_id, request.session, request.num_tokens, options_.id,
                          request.status, times});
    }
    return;
  }
  telemetry::TenantCounters& tenant = tenants_[request.tenant_index];
  tenant.tokens.add(request.num_tokens);
  if (request.settings.slo_ns != 0 && answer_ns_ - request.arrival_ns > request.settings.slo_ns)
    tenant.slo_missed.add();
  tenant.latency_ns.add(answer_ns_ - request.arrival_ns);
  latencies_.record(request.tenant_index, answer_ns_ - request.arrival_ns);
}

// Records the requests whose responses have been handed to the port in this poll.
void Worker::record_sent() noexcept {
  const uint64_t sent_ns = shared_.clock.now_ns();
  for (const net::TransmitQueue::Ended& ended : transmit_.ended()) {
    net::TransmitQueue::Job& job = *ended.job;
    job.times.last_out_ns = sent_ns;
    stages_.add(ended.tenant_index, job.times);
    if (shared_.tracer.wants(job.header.tenant_id))
      shared_.tracer.add(job.header.tenant_id,
                         {job.header.request_id, job.header.session, job.num_tokens, options_.id,
                          StatusCode::kOk, job.times});
  }
  stages_.flush();
}

void Worker::ask_for_missing(net::Context& context) noexcept {
  std::array<wire::Range, wire::kMaxRanges> ranges;
  const size_t most = wire::max_resend_ranges(context.fragment_bytes);
  const size_t count = reassembler_.missing_ranges(context, std::span(ranges).first(most));
  std::array<std::byte, wire::kMaxRanges * sizeof(wire::Range)> payload;
  const size_t bytes =
      wire::build_ranges(std::span(ranges).first(count), context.request.payload_bytes, payload);
  if (bytes == 0) return;
  wire::Header header = answer_header(context, wire::Type::kResend);
  header.total_bytes = context.request.payload_bytes;
  header.fragment_bytes = context.fragment_bytes;
  send_datagram(header, std::span(payload).first(bytes), context.key_bytes, context.peer);
}

DropReason Worker::transmit_cached(net::CachedResponse& entry, const Arrived& arrived,
                                   const Verified& verified, const net::Cursor& cursor) noexcept {
  if (entry.pins > 0) return DropReason::kAlreadySending;
  if (!entry.may_send(cursor.bytes())) return DropReason::kAnswerBudget;
  wire::Header header = entry.header;
  header.auth = arrived.datagram.header.auth;
  header.key_epoch = arrived.datagram.header.key_epoch;
  if (header.type == wire::Type::kStatus) {
    send_datagram(header, wire::detail_payload(entry.detail, wire::kMaxDetailBytes), *verified.key,
                  arrived.frame.peer);
    return DropReason::kNone;
  }
  cache_.pin(entry);
  net::TransmitQueue::Job* job = transmit_.push(entry);
  if (job == nullptr) return DropReason::kTransmitQueueFull;
  job->header = header;
  job->peer = arrived.frame.peer;
  job->key = *verified.key;
  job->cursor = cursor;
  return DropReason::kNone;
}

}  // namespace itif::pipeline
