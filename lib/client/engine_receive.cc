// Handles arriving datagrams. Checks a datagram's session, request, tenant and tag before trusting
// its contents, and decrypts it in place. Every datagram is used, or dropped and counted under a
// Drop.
#include <algorithm>
#include <bit>

#include "client/engine_state.h"

namespace itif::client {
namespace {

// A server sends these statuses without a tag, because it shares no key with the client, and only
// if it is configured to. Anybody who sees the request can forge them.
bool untagged_status_allowed(wire::StatusCode code) noexcept {
  switch (code) {
    case wire::StatusCode::kUnknownTenant:
    case wire::StatusCode::kBadTag:
    case wire::StatusCode::kBadEpoch: return true;
    default: return false;
  }
}

bool passes_with_time(wire::StatusCode code) noexcept {
  return code == wire::StatusCode::kOverloaded || code == wire::StatusCode::kOverQuota ||
         code == wire::StatusCode::kNotAdmitted;
}

// Times that a request is sent again immediately with a new token, and once more after each
// silence. Otherwise only its timer sends it: the address changes faster than datagrams travel, or
// two servers refuse each other's tokens, as while one hands over to the other.
constexpr uint32_t kMaxTokenRefusals = 4;

}  // namespace

void EngineState::on_datagram(const Incoming& incoming, uint64_t now_ns) noexcept {
  ++stats_.datagrams_received;
  stats_.bytes_received += incoming.bytes.size();
  Drop why = Drop::kMalformed;
  if (handle(incoming, now_ns, why))
    ++stats_.datagrams_used;
  else
    ++stats_.dropped[static_cast<size_t>(why)];
}

bool EngineState::handle(const Incoming& incoming, uint64_t now_ns, Drop& why) noexcept {
  wire::Datagram datagram;
  if (wire::parse(incoming.bytes, datagram) != wire::ParseError::kNone) return false;
  const wire::Header& header = datagram.header;
  why = Drop::kNotOurs;
  if (header.session != options_.session || incoming.flow >= num_flows_) return false;
  switch (header.type) {
    case wire::Type::kToken: return on_token(incoming.flow, header, now_ns, why);
    case wire::Type::kResponse:
    case wire::Type::kStatus:
    case wire::Type::kBusy: break;
    case wire::Type::kResend:
      if (header.flags & wire::kFlagOfResponse) return false;  // our own, reflected
      break;
    default: return false;
  }

  why = Drop::kLate;
  const auto index = static_cast<uint32_t>(header.request_id & (capacity_ - 1));
  const Slot& slot = slots_[index];
  if ((slot.phase != Phase::kWaiting && slot.phase != Phase::kAwaitingToken) ||
      slot.request_id != header.request_id || slot.flow != incoming.flow)
    return false;
  why = Drop::kBadTag;
  if (slot.spec.credential.tenant_id != header.tenant_id) return false;
  if (is_hint(slot, header)) {
    slots_[index].hint = header.status;
    ++stats_.hints;
    return true;
  }
  if (!authentic(slot, datagram)) return false;

  // Pieces of a response may be late. Everything else is out of date then, or a replay.
  const bool is_newest = slots_[index].newest.advance(header.sequence);
  if (!is_newest && header.type != wire::Type::kResponse) {
    why = Drop::kReplayed;
    return false;
  }
  switch (header.type) {
    case wire::Type::kResponse: return on_response(index, datagram, is_newest, now_ns, why);
    case wire::Type::kStatus: return on_status(index, datagram, now_ns);
    case wire::Type::kResend: return on_resend(index, datagram, now_ns, why);
    default: on_busy(index, header, now_ns); return true;
  }
}

bool EngineState::authentic(const Slot& slot, const wire::Datagram& datagram) const noexcept {
  const Credential& credential = slot.spec.credential;
  const wire::Header& header = datagram.header;
  if (header.auth == wire::Auth::kNone) return credential.auth == wire::Auth::kNone;
  return header.auth >= credential.auth && wire::open(credential.key, datagram);
}

bool EngineState::is_hint(const Slot& slot, const wire::Header& header) const noexcept {
  return header.auth == wire::Auth::kNone && slot.spec.credential.auth != wire::Auth::kNone &&
         header.type == wire::Type::kStatus && untagged_status_allowed(header.status);
}

bool EngineState::on_response(uint32_t index, const wire::Datagram& datagram, bool is_newest,
                              uint64_t now_ns, Drop& why) noexcept {
  Slot& slot = slots_[index];
  const wire::Header& header = datagram.header;
  if (header.total_bytes > options_.max_response_bytes) {
    why = Drop::kTooLarge;
    return false;
  }
  std::span<const std::byte> whole;
  if (!slot.response.started() && header.payload_bytes == header.total_bytes) {
    whole = datagram.payload;  // the common case: one datagram, no copy
  } else {
    const Reassembly::Added added = slot.response.add(datagram, is_newest, pool_);
    const bool is_new = added == Reassembly::Added::kPiece || added == Reassembly::Added::kWhole;
    const bool is_answer = is_new && note_piece(slot, now_ns);
    switch (added) {
      case Reassembly::Added::kEarlierRun: why = Drop::kReplayed; return false;
      case Reassembly::Added::kDuplicate: why = Drop::kDuplicate; return false;
      case Reassembly::Added::kNoMemory: why = Drop::kNoMemory; return false;
      case Reassembly::Added::kPiece: wait_for_pieces(index, is_answer, now_ns); return true;
      case Reassembly::Added::kWhole:
        whole = slot.response.bytes();
        spread_ns_ -= spread_ns_ / 8;
        if (!(slot.spec.flags & wire::kFlagNoCache)) send_ack(slot);
        break;
    }
  }
  // If the request was repeated, it may have been lost before (Karn's algorithm).
  if (!slot.was_repeated) {
    const uint64_t latency_ns = now_ns - slot.started_ns;
    latency_.learn(latency_ns);
    if (latency_ns < round_trip_.ns) round_trip_.learn(latency_ns);  // no longer than an answer
  }
  newest_answered_ns_ = std::max(newest_answered_ns_, slot.started_ns);
  Outcome outcome = outcome_of(slot, OutcomeKind::kAnswered, now_ns);
  outcome.result_kind = header.result_kind;
  outcome.server_us = header.budget_us;
  outcome.result_rows = header.aux;
  outcome.model_version = wire::model_version(header);
  outcome.result = whole;
  finish(index, outcome);
  return true;
}

bool EngineState::on_status(uint32_t index, const wire::Datagram& datagram,
                            uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  const wire::Header& header = datagram.header;
  if (header.status == wire::StatusCode::kTokenRequired) {
    on_token_required(index, header.token, now_ns);
    return true;
  }
  if (passes_with_time(header.status) &&
      slot.refusal_retries < options_.retry.max_refusal_retries) {
    const uint64_t again_ns =
        now_ns + (header.aux > 0 ? uint64_t{header.aux} * 1000 : options_.retry.initial_rto_ns);
    if (again_ns < std::min(slot.give_up_ns, slot.deadline_ns)) {
      ++slot.refusal_retries;
      BufferPool::Buffer partial = slot.response.take();
      pool_.release(partial);
      send_lists_.remove(index);
      token_lists_.remove(index);
      unstage(index);
      slot.num_ranges = slot.next_range = 0;
      if (prober_ == index) prober_ = UINT32_MAX;
      slot.phase = Phase::kPaused;
      arm(index, again_ns);
      return true;
    }
  }
  Outcome outcome = outcome_of(slot, OutcomeKind::kRefused, now_ns);
  outcome.status = static_cast<uint16_t>(header.status) < wire::kNumStatusCodes
                       ? header.status
                       : wire::StatusCode::kInternal;  // a later version's code
  outcome.retry_after_us = header.aux;
  outcome.result = datagram.payload;
  finish(index, outcome);
  return true;
}

// The server lacks pieces of the request: sends every piece that its ranges touch.
bool EngineState::on_resend(uint32_t index, const wire::Datagram& datagram, uint64_t now_ns,
                            Drop& why) noexcept {
  Slot& slot = slots_[index];
  const wire::Header& header = datagram.header;
  const uint32_t fragment = options_.fragment_bytes;
  std::array<wire::Range, wire::kMaxRanges> ranges;
  const size_t count = wire::parse_ranges(datagram.payload, header.total_bytes, ranges);
  if (count == 0 || header.total_bytes != slot.spec.payload.size() ||
      header.fragment_bytes != fragment) {
    why = Drop::kBadGeometry;
    return false;
  }
  if (slot.phase != Phase::kWaiting) return true;  // all is sent when the token arrives
  slot.is_known = true;
  wait_for_answer(index, now_ns);
  ++stats_.resends_served;
  if (options_.retry.max_tries == 1) return true;  // policy: send once
  // The server drops pieces whose token is too old, in silence, and asks again.
  if (now_ns >= flows_[slot.flow]->token_renew_ns) say_hello(slot.flow, now_ns);
  uint32_t sent_to = 0;
  for (const wire::Range& range : std::span(ranges).first(count)) {
    const uint32_t from = std::max(range.offset / fragment * fragment, sent_to);
    sent_to = range.offset + range.bytes;
    if (from < sent_to) queue_range(index, {from, sent_to});
    sent_to = (sent_to + fragment - 1) / fragment * fragment;
  }
  return true;
}

// The request waits or runs: asks again at the time that the server gives, and no earlier than
// after the RTO, which each silence has doubled. Repeats to a loaded server thus become rare. The
// time also says how long other requests may take.
void EngineState::on_busy(uint32_t index, const wire::Header& header, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  ++stats_.busy;
  if (slot.phase != Phase::kWaiting) return;
  send_lists_.remove(index);
  slot.num_ranges = slot.next_range = 0;
  slot.is_known = true;
  slot.silent_tries = 1;
  slot.was_repeated = false;
  slot.is_busy = true;
  const uint64_t named_ns = std::min(uint64_t{header.budget_us} * 1000, options_.retry.max_busy_ns);
  const uint64_t expected_ns = now_ns - slot.started_ns + named_ns;
  if (expected_ns > latency_.ns) latency_.learn(expected_ns);
  arm(index, now_ns + std::max(slot.rto_ns, named_ns));
}

// The token of the send was too old, or the client's address has changed. A status with the token
// that was sent refuses an earlier send.
//
// The status is authentic, but its token may be for another address: an attacker who sends a
// captured request gets such a status, and can pass it on. So a hello asks for the token. An
// attacker can also answer the hello, if it is faster than the server: then its token is refused,
// too, and the status's is taken.
void EngineState::on_token_required(uint32_t index, uint64_t token, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  if (token == 0 || token == slot.sent_token) return;
  ++stats_.token_refusals;
  slot.hint = wire::StatusCode::kTokenRequired;
  Flow& flow = *flows_[slot.flow];
  if (flow.token == slot.sent_token || flow.token == 0) {
    if (slot.token_refusals % 2 == 0) {
      flow.token_renew_ns = std::min(flow.token_renew_ns, now_ns);  // repeats a lost hello
      say_hello(slot.flow, now_ns);
      if (token_lists_.list_of(index) == IndexLists::kNone)
        token_lists_.push_back(slot.flow, index);
      return;
    }
    keep_token(flow, token, now_ns);
  }
  retry_with_token(index, now_ns);
}

// Sends a request again whose token was refused, with its flow's newer one. If the server has had
// the request with the older one, a piece suffices to ask what it lacks.
void EngineState::retry_with_token(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  if (slot.token_refusals == kMaxTokenRefusals) return;
  ++slot.token_refusals;
  if (!slot.is_known) {
    send_with_token(index, now_ns);
    return;
  }
  ++stats_.retransmissions;
  slot.is_busy = false;
  slot.was_repeated = true;
  queue_probe(index);
}

// Renews the token at half its life, so that a steady load never gets token_required.
void EngineState::keep_token(Flow& flow, uint64_t token, uint64_t now_ns) noexcept {
  flow.token = token;
  flow.token_renew_ns = now_ns + flow.token_life_ns / 2;
  flow.token_expires_ns = now_ns + flow.token_life_ns;
}

// Sends the whole request. REQUIRES: its flow has a token.
void EngineState::send_with_token(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  token_lists_.remove(index);
  slot.phase = Phase::kWaiting;
  slot.is_known = false;
  slot.started_ns = now_ns;
  slot.is_busy = slot.was_repeated = false;
  queue_whole(index);
  wait_for_answer(index, now_ns);
}

bool EngineState::on_token(uint32_t flow_index, const wire::Header& header, uint64_t now_ns,
                           Drop& why) noexcept {
  Flow& flow = *flows_[flow_index];
  const auto number = static_cast<uint32_t>(header.request_id & (kHelloIds - 1));
  if (header.token == 0 || number >= flow.num_hellos ||
      (header.request_id ^ number) != flow.hello_id)
    return false;
  why = Drop::kDuplicate;
  if (!flow.hello_pending) return false;
  flow.hello_pending = false;
  ++stats_.tokens;
  round_trip_.learn(std::max<uint64_t>(now_ns - flow.hello_sent_ns[number], 1));
  flow.token_life_ns =
      header.budget_us == 0 ? kDefaultTokenLifeNs : uint64_t{header.budget_us} * 1000;
  keep_token(flow, header.token, now_ns);
  for (uint32_t index; (index = token_lists_.front(flow_index)) != IndexLists::kNone;) {
    token_lists_.remove(index);
    const Slot& slot = slots_[index];
    if (slot.phase == Phase::kAwaitingToken) send_with_token(index, now_ns);
    // Else a status refused its token: for another address, if the token is still the same.
    else if (slot.sent_token != flow.token)
      retry_with_token(index, now_ns);
  }
  return true;
}

}  // namespace itif::client
