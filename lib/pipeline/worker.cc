#include "pipeline/worker.h"

#include <thread>
#include <utility>

#include "base/log.h"
#include "net/announce.h"
#include "net/drop_reason.h"
#include "wire/aead.h"
#include "wire/siphash.h"

namespace itif::pipeline {
namespace {

constexpr uint64_t kSweepPeriodNs = 200'000;
constexpr uint64_t kLinkPeriodNs = 100'000'000;
constexpr uint64_t kLastAnswersNs = 1'000'000'000;
// No more frames than these wait in a port's queue: twice the ring that docs/operations.md advises.
constexpr size_t kMaxWaitingFrames = 32768;
constexpr uint32_t kTransmitJobs = 16384;
constexpr uint32_t kSessionsPerSweep = 16;

// Returns a worker's first sequence number. It is far from the numbers of other workers and of
// earlier processes, so that no two datagrams have the same nonce.
uint64_t first_sequence(const wire::Key& secret, uint16_t worker) noexcept {
  const auto hash = wire::siphash128(secret, std::as_bytes(std::span(&worker, 1)), {});
  return wire::load_word(hash.data());
}

}  // namespace

static_assert(net::kNumDropReasons <= telemetry::kMaxDropReasons);
static_assert(wire::kNumStatusCodes <= telemetry::kMaxStatusCodes);
static_assert(tenant::kMaxTenants == telemetry::kMaxTenants);

WorkerOptions worker_options(const config::DataPlane& plane) {
  WorkerOptions options;
  options.reassembly.max_contexts = plane.max_contexts;
  options.reassembly.max_held_bytes = plane.max_held_bytes;
  options.reassembly.tenant_max_contexts = plane.tenant_max_contexts;
  options.reassembly.tenant_max_held_bytes = plane.tenant_max_held_bytes;
  options.reassembly.max_tenants = tenant::kMaxTenants;
  options.reassembly.timeout_ns = plane.reassembly_timeout_ns;
  options.reassembly.stall_ns = std::min<uint64_t>(plane.reassembly_timeout_ns / 16, 31'250'000);
  options.cache.max_bytes = plane.cache_bytes;
  options.cache.ttl_ns = plane.cache_ttl_ns;
  options.cache.max_tenants = tenant::kMaxTenants;
  options.sessions.max_sessions = plane.max_sessions;
  options.sessions.max_tenants = tenant::kMaxTenants;
  options.sessions.idle_ns = 2 * kTokenPeriodNs;
  options.max_unproven_replies = plane.max_unproven_replies;
  options.answer_bad_tags = plane.answer_bad_tags;
  options.idle.busy = plane.polling == "busy";
  options.idle.max_sleep_ns = plane.idle_sleep_ns;
  return options;
}

Result<std::unique_ptr<Worker>> Worker::create(const net::Port& port, Shared& shared,
                                               const WorkerOptions& options) {
  if (options.id >= tenant::SnapshotCell::kMaxReaders) {
    return fail(Code::kResourceExhausted, "at most " +
                                              std::to_string(tenant::SnapshotCell::kMaxReaders) +
                                              " workers are possible: lower num_workers");
  }
  std::unique_ptr<Worker> worker(new Worker(port, shared, options));
  ITIF_ASSIGN(worker->returns_, ReturnRing::create("itif_return_" + std::to_string(options.id),
                                                   options.reassembly.max_contexts));
  Doorbell& bell = worker->returns_->bell();
  if (options.owner_lane != nullptr) options.owner_lane->set_member_bell(bell);
  for (SpreadLane* lane : options.member_lanes) lane->set_owner_bell(bell);
  return worker;
}

Worker::Worker(const net::Port& port, Shared& shared, const WorkerOptions& options)
    : port_(port),
      shared_(shared),
      options_(options),
      reassembler_(options.reassembly),
      refused_(options.reassembly.timeout_ns / 8),
      sessions_(options.sessions, options.seed + 1),
      unproven_(options.max_unproven_replies, options.seed + 2),
      cache_(options.cache),
      transmit_(kTransmitJobs, options.cache.max_tenants, cache_),
      tx_(port, options.queue, options.owner_lane),
      shares_queue_(options.owner_lane != nullptr || !options.member_lanes.empty()),
      spreader_(options.member_lanes.empty()
                    ? nullptr
                    : std::make_unique<Spreader>(options.member_lanes, options.seed + 5)),
      stages_(options.stamps_stages),
      announcements_(net::announcements(options.local)),
      link_up_(port.link().up),
      next_sequence_(first_sequence(shared.token_secret, options.id)) {}

Worker::~Worker() {
  shared_.tenants.go_idle(options_.id);
}

void Worker::allow_run() noexcept {
  if (options_.owner_lane != nullptr) options_.owner_lane->set_ended(false);
  stopping_.store(false, std::memory_order_release);
}

void Worker::stop() noexcept {
  stopping_.store(true, std::memory_order_release);
  returns_->bell().ring();
}

void Worker::run() noexcept {
  use_precise_sleeps();
  wire::prepare_aead();  // so that no sealed datagram allocates
  Idle idle(options_.idle);
  while (!stopping_.load(std::memory_order_acquire)) {
    if (poll() > 0) {
      idle.found_work();
      continue;
    }
    counters_.idle_polls.add();
    idle.found_nothing(returns_->bell(), [this] {
      return !returns_->empty() || has_shared_work() || stopping_.load(std::memory_order_acquire);
    });
  }
  // Sends the remaining answers, for at most kLastAnswersNs.
  const uint64_t give_up_ns = shared_.clock.now_ns() + kLastAnswersNs;
  while (has_answers() && shared_.clock.now_ns() < give_up_ns)
    if (poll() == 0)
      idle.found_nothing(returns_->bell(),
                         [this] { return !returns_->empty() || has_shared_work(); });
  if (options_.owner_lane != nullptr) options_.owner_lane->set_ended(true);
  shared_.tenants.go_idle(options_.id);
  while (!stages_.publish()) std::this_thread::yield();  // a reader copies
}

size_t Worker::poll() noexcept {
  counters_.polls.add();
  const uint64_t before_ns = std::exchange(now_ns_, shared_.clock.now_ns());
  if (found_work_) counters_.busy_ns.add(now_ns_ - before_ns);
  snapshot_ = &shared_.tenants.acquire(options_.id);
  const tenant::Intake wanted = snapshot_->intake();
  if (wanted != tenant::Intake::kIgnore) set_intake(wanted);
  const bool may_ignore = wanted == tenant::Intake::kIgnore && owner_ignores();

  std::array<rte_mbuf*, kBurst> mbufs;
  size_t passed = 0;  // to other workers
  const size_t received =
      shares_queue_ ? fetch_shared(mbufs, passed) : port_.rx_burst(options_.queue, mbufs);
  receive(std::span(mbufs).first(received));
  lend();
  if (may_ignore) ignore_after_waiting(received + passed);

  std::array<ReturnRing::Item, kBurst> returned;
  const unsigned given_back = returns_->pop(returned.data(), returned.size());
  answer_ns_ = given_back > 0 ? shared_.clock.now_ns() : now_ns_;
  for (unsigned i = 0; i < given_back; ++i) {
    net::Context& context = net::Context::of(returned[i].request());
    if (returned[i].has_ended())
      finish(context);
    else
      take_packets(context);
  }

  const size_t collected = spreader_ ? spreader_->collect(tx_) : 0;
  const bool stamps = options_.stamps_stages && transmit_.size() > 0;
  const size_t built = transmit_.poll(tx_, options_.pool, port_.info().tx_offloads,
                                      stamps ? shared_.clock.now_ns() : now_ns_, next_sequence_);
  const size_t pending = tx_.pending(), flushed = tx_.flush(now_ns_);
  // A member idles while its owner has no room: they may share a CPU.
  const size_t waiting = options_.owner_lane == nullptr ? pending : flushed;
  if (!transmit_.ended().empty()) record_sent();
  if (now_ns_ >= next_sweep_ns_) sweep();
  reassembler_.flush();
  death_row_.flush();
  const size_t moved = received + passed + given_back + collected + built;
  if (moved > 0) publish();
  const size_t done = moved + waiting;
  found_work_ = done > 0;
  return done;
}

// Another process accepts requests, but only this one has those that arrived before the other
// opened the port: they may still wait in the queue. `taken`: frames that this poll took from it.
void Worker::ignore_after_waiting(size_t taken) noexcept {
  num_taken_ += taken;
  if (taken < kBurst || num_taken_ >= kMaxWaitingFrames) set_intake(tenant::Intake::kIgnore);
}

void Worker::set_intake(tenant::Intake intake) noexcept {
  if (intake != tenant::Intake::kIgnore) num_taken_ = 0;
  if (intake == this->intake()) return;
  const bool ignores = intake == tenant::Intake::kIgnore;
  if (ignores) forget_incomplete();
  for (SpreadLane* lane : options_.member_lanes) lane->set_owner_ignores(ignores);
  intake_.store(intake, std::memory_order_release);
}

// Their clients repeat them to the process that accepts requests now.
void Worker::forget_incomplete() noexcept {
  reassembler_.for_each([this](net::Context& context) {
    if (context.state != net::ContextState::kAssembling) return;
    context.request.status = wire::StatusCode::kDraining;  // not sent
    forget(context, net::DropReason::kHandedOver);
  });
}

void Worker::sweep() noexcept {
  next_sweep_ns_ = now_ns_ + kSweepPeriodNs;
  answer_ns_ = std::max(answer_ns_, now_ns_);
  std::array<net::Reassembler::Due, 32> due;
  size_t count;
  do {
    count = reassembler_.sweep(now_ns_, due);
    for (size_t i = 0; i < count; ++i) {
      net::Context& context = *due[i].context;
      switch (due[i].why) {
        case net::Reassembler::Due::kStalled: ask_for_missing(context); break;
        case net::Reassembler::Due::kDeadline:
          if (context.state == net::ContextState::kExecuting) {
            expire(context);
            break;
          }
          give_up(context, net::DropReason::kDeadlineReassembly,
                  wire::StatusCode::kDeadlineReassembly,
                  "the deadline passed before all of the request had arrived");
          break;
        case net::Reassembler::Due::kTimeout:
          give_up(context, net::DropReason::kReassemblyTimeout,
                  wire::StatusCode::kDeadlineReassembly,
                  "the rest of the request did not arrive in time");
          break;
      }
    }
  } while (count == due.size());
  cache_.expire(now_ns_, 256);
  sessions_.expire(now_ns_, kSessionsPerSweep);
  if (options_.is_first_of_port()) watch_link();
  publish();
}

void Worker::announce() noexcept {
  if (!link_up_) return;  // watch_link() will
  net::announce(tx_, options_.pool, announcements_);
  tx_.flush(now_ns_);
}

// Announces our addresses whenever the link comes up: the cable may now be elsewhere, and
// announcements made while the link was down were lost.
void Worker::watch_link() noexcept {
  if (now_ns_ < next_link_ns_) return;
  next_link_ns_ = now_ns_ + kLinkPeriodNs;
  const net::Link link = port_.link();
  if (link.up == link_up_ && link.removed == link_removed_) return;
  link_up_ = link.up;
  link_removed_ = link.removed;
  if (link.removed)
    log::error("port {}: its interface was removed: make it, and restart itifd",
               port_.info().device);
  else
    log::info("port {}: link {}", port_.info().device, link.up ? "up" : "down");
  if (link.up) announce();
}

// Logs that another host uses one of our addresses, and announces ours again, at most every 10 s,
// as RFC 5227, section 2.4 (b), defends an address.
void Worker::note_conflict(const net::Frame& frame) noexcept {
  constexpr uint64_t kConflictPeriodNs = 10'000'000'000;
  if (now_ns_ < next_conflict_ns_) return;
  next_conflict_ns_ = now_ns_ + kConflictPeriodNs;
  log::warning(
      "port {}: the host with MAC address {} uses an IP address of this port too: its clients "
      "reach one or the other. Give one of them another address",
      port_.info().device, net::format_mac(frame.peer.peer_mac));
  announce();
}

// Copies figures of other objects to counters that any thread may read.
void Worker::publish() noexcept {
  counters_.sent.add(tx_.sent() - counters_.sent.read());
  counters_.sent_bytes.add(tx_.sent_bytes() - counters_.sent_bytes.read());
  counters_.send_dropped.add(tx_.dropped() - counters_.send_dropped.read());
  // Published figures of requests are at most this old. Publishing them costs about 10 µs.
  constexpr uint64_t kStagesPeriodNs = 200'000'000;
  const uint64_t answers = stages_.num_recorded() + counters_.statuses.read();
  if (answers != published_answers_ && now_ns_ >= next_stages_ns_ && stages_.publish()) {
    published_answers_ = answers;
    next_stages_ns_ = now_ns_ + kStagesPeriodNs;
  }
  counters_.held.set(reassembler_.held_pieces());
  counters_.contexts.set(reassembler_.num_contexts());
  counters_.held_bytes.set(reassembler_.held_bytes());
}

}  // namespace itif::pipeline
