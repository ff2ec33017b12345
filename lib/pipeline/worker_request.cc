// Request datagrams: verification, admission, reassembly, dispatch to groups.
#include "pipeline/worker.h"
#include "wire/payload.h"

namespace itif::pipeline {

using net::DropReason;
using net::Outcome;
using wire::StatusCode;

namespace {

constexpr char kOverQuotaDetail[] = "over the tenant's request rate";

}  // namespace

const wire::Key* Worker::key_of_epoch(const tenant::Tenant& tenant, uint16_t epoch) noexcept {
  if (tenant.key.epoch == epoch) return &tenant.key.bytes;
  if (tenant.has_previous_key && tenant.previous_key.epoch == epoch)
    return &tenant.previous_key.bytes;
  return nullptr;
}

// Checks in this order, and returns the first failure: tenant, strength of authentication, epoch, a
// sequence number that was accepted before, tag, address token, room for a session. The session
// changes only after all checks. Decrypts a sealed datagram.
Worker::Verified Worker::verify(const Arrived& arrived) noexcept {
  const wire::Header& header = arrived.datagram.header;
  Verified verified;
  verified.tenant = snapshot_->find(header.tenant_id);
  if (verified.tenant == nullptr) {
    verified.refusal = DropReason::kUnknownTenant;
    return verified;
  }
  addressee_ = verified.tenant;
  const net::SessionKey key =
      net::session_key(header.tenant_id, header.session, arrived.frame.peer);
  net::Session* session = sessions_.find(key, arrived.session_hash);
  if (session != nullptr && !session->window.is_fresh(header.sequence)) {
    verified.refusal = DropReason::kReplayed;
    return verified;
  }
  verified.refusal = check_key(arrived, verified);
  if (verified.refusal == DropReason::kNone)
    verified.refusal = check_address(arrived, *verified.tenant, session, key);
  return verified;
}

DropReason Worker::check_key(const Arrived& arrived, Verified& verified) noexcept {
  const wire::Header& header = arrived.datagram.header;
  if (static_cast<uint8_t>(header.auth) < verified.tenant->auth) return DropReason::kBadAuth;
  verified.key = &verified.tenant->key.bytes;
  if (header.auth == wire::Auth::kNone) return DropReason::kNone;
  verified.key = key_of_epoch(*verified.tenant, header.key_epoch);
  if (verified.key == nullptr) return DropReason::kBadEpoch;
  const bool is_good = arrived.tag == Received::kUnchecked
                           ? wire::open(*verified.key, arrived.datagram)
                           : arrived.tag == Received::kGood;
  return is_good ? DropReason::kNone : DropReason::kBadTag;
}

// Checks that the sender receives at its address, and counts its sequence number as seen. A session
// remembers its token, so that only the first datagram with a token computes a hash.
DropReason Worker::check_address(const Arrived& arrived, const tenant::Tenant& tenant,
                                 net::Session* session, const net::SessionKey& key) noexcept {
  const wire::Header& header = arrived.datagram.header;
  const bool is_known =
      session != nullptr && session->token == header.token && now_ns_ < session->token_until_ns;
  const uint64_t token_until_ns = is_known ? session->token_until_ns : token_end_ns(arrived);
  if (token_until_ns == 0) return DropReason::kTokenRequired;
  if (session == nullptr) {
    session = sessions_.create(key, arrived.session_hash, tenant.index, header.sequence, now_ns_);
    if (session == nullptr) return DropReason::kSessionsFull;
  } else {
    session->window.add(header.sequence);
    session->last_ns = now_ns_;
  }
  if (token_until_ns > session->token_until_ns) {
    session->token = header.token;
    session->token_until_ns = token_until_ns;
  }
  return DropReason::kNone;
}

Outcome Worker::on_request(const Arrived& arrived) noexcept {
  const Verified verified = verify(arrived);
  // Each process of a handover would refuse the other's tokens: only the new one answers refusals.
  if (verified.refusal != DropReason::kNone && snapshot_->intake() == tenant::Intake::kIgnore)
    return Outcome::dropped(DropReason::kHandedOver);
  switch (verified.refusal) {
    case DropReason::kNone: break;
    case DropReason::kReplayed: return Outcome::dropped(verified.refusal);
    case DropReason::kTokenRequired:
      return refuse(arrived, verified, verified.refusal, StatusCode::kTokenRequired,
                    "send the request again with this token");
    case DropReason::kSessionsFull:
      return refuse(arrived, verified, verified.refusal, StatusCode::kOverloaded,
                    "too many clients have sessions", 1'000'000);
    default:
      // An answer would help an attacker who guesses tenants and keys. The drop counter, or
      // answer_bad_tags, helps to find a misconfigured client.
      if (!options_.answer_bad_tags) return Outcome::dropped(verified.refusal);
      return refuse(arrived, verified, verified.refusal,
                    verified.refusal == DropReason::kUnknownTenant ? StatusCode::kUnknownTenant
                    : verified.refusal == DropReason::kBadEpoch    ? StatusCode::kBadEpoch
                                                                   : StatusCode::kBadTag,
                    "not authenticated as the tenant requires");
  }

  const wire::Header& header = arrived.datagram.header;
  const net::HashedKey& key = arrived.key;
  if (net::Context* context = reassembler_.find(key)) {
    if (is_weaker(header, context->auth)) return Outcome::dropped(DropReason::kBadAuth);
    if (context->state == net::ContextState::kExecuting && header.offset == 0)
      answer_repeat(*context, arrived.frame.peer);
    return add_piece(*context, arrived);
  }
  if (net::CachedResponse* entry = cache_.find(key, now_ns_)) {
    if (is_weaker(header, entry->header.auth)) return Outcome::dropped(DropReason::kBadAuth);
    // Only the first piece triggers the answer; otherwise n pieces would send it n times.
    if (header.offset == 0) {
      const DropReason refusal =
          transmit_cached(*entry, arrived, verified, net::Cursor::whole(entry->header));
      if (refusal != DropReason::kNone) return Outcome::dropped(refusal);
      counters_.cache_hits.add();
    }
    return Outcome::dropped(DropReason::kAnsweredFromCache);
  }
  if (header.offset != 0 && refused_.contains(key, now_ns_))
    return Outcome::dropped(DropReason::kRefusedBefore);
  const Outcome outcome = on_new_request(arrived, verified);
  if (outcome.kind == Outcome::kDropped)
    refused_.add(key, now_ns_);
  else
    refused_.erase(key, now_ns_);
  return outcome;
}

Outcome Worker::on_new_request(const Arrived& arrived, const Verified& verified) noexcept {
  const wire::Header& header = arrived.datagram.header;
  const tenant::Tenant& tenant = *verified.tenant;
  if (intake() == tenant::Intake::kIgnore) return Outcome::dropped(DropReason::kHandedOver);
  if (intake() == tenant::Intake::kRefuse)
    return refuse(arrived, verified, DropReason::kDraining, StatusCode::kDraining,
                  "the appliance is draining", 1'000'000);
  if (tenant.state != tenant::State::kServing)
    return refuse(arrived, verified, DropReason::kNotAdmitted, StatusCode::kNotAdmitted,
                  tenant.state == tenant::State::kPaused ? "the tenant is paused"
                                                         : "the tenant's model is not loaded");
  const tenant::ServedModel& model = tenant.model_for(header.session, header.request_id);
  if ((model.payload_kinds >> static_cast<unsigned>(header.payload_kind) & 1) == 0)
    return refuse_for_model(model, arrived, verified, DropReason::kUnsupportedKind,
                            StatusCode::kUnsupportedKind,
                            "the tenant's model does not take this kind of payload");
  if (!wire::payload_size_valid(header.payload_kind, header.total_bytes))
    return refuse(arrived, verified, DropReason::kWireBadGeometry, StatusCode::kMalformed,
                  "no payload of this kind has this length");
  if (header.total_bytes > model.max_payload_bytes)
    return refuse_for_model(model, arrived, verified, DropReason::kTooLong, StatusCode::kTooLong,
                            "longer than the tenant's model accepts");
  uint32_t retry_after_us = 0;
  if (!shared_.quota.would_admit(tenant.index, tenant.quota_rps, now_ns_, retry_after_us))
    return refuse(arrived, verified, DropReason::kOverQuota, StatusCode::kOverQuota,
                  kOverQuotaDetail, retry_after_us);

  const net::Arrival arrival{arrived.key,         &header, arrived.datagram.payload, arrived.mbuf,
                             &arrived.frame.peer, now_ns_};
  net::Admission admission;
  admission.tenant_index = tenant.index;
  admission.slot = model.slot;
  admission.group = model.group;
  admission.worker = options_.id;
  admission.in_flight = &model.lease->row(options_.id);
  admission.deadline_ns = header.budget_us == 0 ? 0 : now_ns_ + uint64_t{header.budget_us} * 1000;
  const net::Reassembler::Added added = reassembler_.start(arrival, admission);
  if (added.context == nullptr && added.outcome.reason == DropReason::kTooManyPieces)
    return refuse(arrived, verified, added.outcome.reason, StatusCode::kTooLong,
                  "cut into more pieces than a request may have: send larger ones");
  if (added.context == nullptr) {
    constexpr uint32_t kRetryAfterUs = 20'000;
    return refuse(arrived, verified, added.outcome.reason, StatusCode::kOverloaded,
                  "too many requests are being assembled", kRetryAfterUs);
  }
  net::Context& context = *added.context;
  context.key_bytes = *verified.key;
  context.request.settings = tenant;
  context.model_version = model.version;
  context.version_counts = model.lease->counts.get();
  admission.in_flight->add();
  if (added.whole) dispatch(context);
  return added.outcome;
}

Outcome Worker::add_piece(net::Context& context, const Arrived& arrived) noexcept {
  const net::Arrival arrival{arrived.key,  &arrived.datagram.header, arrived.datagram.payload,
                             arrived.mbuf, &arrived.frame.peer,      now_ns_};
  const net::Reassembler::Added added = reassembler_.add(context, arrival);
  if (added.whole) {
    dispatch(context);
  } else if (added.outcome.reason == DropReason::kDuplicate &&
             arrived.datagram.header.offset == 0 &&
             context.state == net::ContextState::kAssembling) {
    ask_for_missing(context);  // a repeat: the client waits for us, and we for missing pieces
  }
  return added.outcome;
}

// Hands a complete request to lend(), or refuses it immediately if the tenant's quota is used up or
// its group cannot answer it. Only a complete request uses quota.
void Worker::dispatch(net::Context& context) noexcept {
  request::Request& request = context.request;
  if (!shared_.quota.admit(request.tenant_index, request.settings.quota_rps, now_ns_,
                           request.retry_after_us))
    return give_up(context, DropReason::kOverQuota, StatusCode::kOverQuota, kOverQuotaDetail);
  GroupInbox* inbox = shared_.groups.find(request.group);
  if (inbox == nullptr) {
    request.status = StatusCode::kInternal;
    request.detail = "the tenant's group is not running";
    request.retry_after_us = 20'000;
    return finish(context);
  }
  if (request.deadline_ns != 0 && request.deadline_ns <= inbox->busy_until_ns()) {
    request.status = StatusCode::kDeadlineLaunch;
    request.detail = "the deadline would pass before the running batches end";
    return finish(context);
  }
  lent_[num_lent_] = &request;
  lent_to_[num_lent_] = inbox;
  counters_.requests.add();
  tenants_[request.tenant_index].requests.add();
  if (++num_lent_ == kLentAtOnce) lend();
}

// Lends the chosen requests to their groups.
void Worker::lend() noexcept {
  if (num_lent_ == 0) return;
  const std::span requests = std::span(lent_).first(num_lent_);
  if (options_.stamps_stages) {
    const uint64_t verified_ns = shared_.clock.now_ns();
    for (request::Request* request : requests) request->verified_ns = verified_ns;
  }
  for (size_t first = 0, end; first < num_lent_; first = end) {
    for (end = first + 1; end < num_lent_ && lent_to_[end] == lent_to_[first];) ++end;
    lent_to_[first]->push(requests.subspan(first, end - first));
  }
  num_lent_ = 0;
}

}  // namespace itif::pipeline
