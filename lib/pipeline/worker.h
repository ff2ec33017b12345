// A worker: receives from one queue of one port, and processes its datagrams and requests. It may
// share the queue with workers that have none (spreader.h).
//
//   rx burst → frame → datagram → tenant → tag → reassembly → group ring ┄ executor ┄ return ring →
//   response cache → transmit queue → tx burst
//
// Owned by one thread, which calls poll(), or run(), which polls until stopped. Every received
// datagram is counted as forwarded, held or dropped for a reason. Every accepted request ends as
// one response or one status. Polling allocates no memory and takes no lock.
//
// worker.cc: the loop and its timers; worker_receive.cc: dispatch of datagrams; worker_request.cc:
// verification and admission; worker_respond.cc: answers; worker_spread.cc: shared queues.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/wipe.h"
#include "config/config.h"
#include "net/death_row.h"
#include "net/frame.h"
#include "net/port.h"
#include "net/reassembly.h"
#include "net/refused_keys.h"
#include "net/reply_limiter.h"
#include "net/response_cache.h"
#include "net/sessions.h"
#include "net/transmit_queue.h"
#include "net/tx_buffer.h"
#include "pipeline/group_table.h"
#include "pipeline/idle.h"
#include "pipeline/return_ring.h"
#include "pipeline/spreader.h"
#include "pipeline/stage_recorder.h"
#include "pipeline/tenant_latency.h"
#include "pipeline/tracer.h"
#include "sched/quota.h"
#include "telemetry/counters.h"
#include "tenant/snapshot.h"
#include "wire/datagram.h"

namespace itif::pipeline {

// The state that all workers share; outlives them.
struct Shared {
  explicit Shared(const Clock& injected_clock) : clock(injected_clock), tracer(injected_clock) {}
  ~Shared() { wipe(token_secret); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  const Clock& clock;
  tenant::SnapshotCell tenants;
  GroupTable groups;
  sched::Quota quota;
  Tracer tracer;
  wire::Key token_secret{};
};

struct WorkerOptions {
  uint16_t id = 0;     // among all workers: its snapshot reader and return ring
  uint16_t queue = 0;  // of the port; a member's is its owner's
  // Software spreading: of a member, the lane to its owner; of an owner, those to its members.
  SpreadLane* owner_lane = nullptr;
  std::vector<SpreadLane*> member_lanes;
  rte_mempool* pool = nullptr;
  net::LocalAddresses local;
  net::ReassemblyLimits reassembly;
  net::ResponseCacheLimits cache;
  net::SessionLimits sessions;
  uint32_t path_mtu = 1500;
  bool answer_bad_tags = false;
  uint32_t max_unproven_replies = 10'000;  // per second and source prefix
  // Stamps requests at each stage, keeps histograms of the stages, and can trace requests.
  bool stamps_stages = true;
  IdlePolicy idle;
  uint64_t seed = 0;  // secret: hash tables

  // The first worker of a port announces its addresses and watches its link.
  bool is_first_of_port() const noexcept { return queue == 0 && owner_lane == nullptr; }
  // The receiver of address tokens (wire::TokenInput). Workers that share a queue accept the same
  // tokens, because all datagrams of a client go to one of them. Workers of another queue accept
  // others: they do not know which sequence numbers were accepted here, and would run a captured
  // request again.
  uint16_t token_receiver() const noexcept {
    return owner_lane == nullptr ? id : owner_lane->owner();
  }
};

// Returns the options that the configuration sets. The caller sets id, queue, lanes, pool, local,
// path_mtu and seed.
WorkerOptions worker_options(const config::DataPlane& plane);

// The period of address tokens. A token is valid for the rest of its period and the next.
constexpr uint64_t kTokenPeriodNs = 30'000'000'000;

class Worker {
 public:
  // `port`, `shared` and the lanes outlive the worker. Errors: kResourceExhausted.
  static Result<std::unique_ptr<Worker>> create(const net::Port& port, Shared& shared,
                                                const WorkerOptions& options);
  ~Worker();

  // Sends the frames that announce the port's addresses. If the link is down, poll() sends them
  // when it comes up. REQUIRES: as poll().
  void announce() noexcept;
  // Runs one iteration of the loop; returns the amount of work done.
  size_t poll() noexcept;
  // Polls until stop(); idles between polls according to the idle policy.
  void run() noexcept;
  void stop() noexcept;
  // Lets run() run again. REQUIRES: run() has returned.
  void allow_run() noexcept;

  ReturnRing& returns() noexcept { return *returns_; }
  const WorkerOptions& options() const noexcept { return options_; }
  const net::Port& port() const noexcept { return port_; }

  // Returns how the worker treats new requests. It follows the snapshot's intake, but ignores
  // requests only once it has handled the frames that waited in its queue. Any thread.
  tenant::Intake intake() const noexcept { return intake_.load(std::memory_order_acquire); }
  // Figures. Any thread.
  const telemetry::WorkerCounters& counters() const noexcept { return counters_; }
  const telemetry::TenantCounterTable& tenant_counters() const noexcept { return tenants_; }
  const telemetry::StageHistograms& stages() const noexcept { return stages_.all(); }
  const TenantLatencyTable& latencies() const noexcept { return latencies_; }
  const TenantStageTable& tenant_stages() const noexcept { return stages_.tenants(); }

 private:
  Worker(const net::Port& port, Shared& shared, const WorkerOptions& options);

  // A frame of the burst that is being handled.
  struct Received {
    net::Frame frame;
    wire::Datagram datagram;                               // frame.kind = kUdp only
    net::HashedKey key;                                    // of the datagram
    uint32_t session_hash = 0;                             // of its place in the table of sessions
    net::DropReason refusal = net::DropReason::kNone;      // of the frame
    wire::ParseError malformed = wire::ParseError::kNone;  // of the datagram
    // The verdict on the tag, if it could be checked together with the burst's others.
    enum Tag : uint8_t { kUnchecked, kGood, kBad } tag = kUnchecked;
  };
  // Returns true if a frame holds a well-formed datagram.
  static bool is_datagram(const Received& received) noexcept {
    return received.refusal == net::DropReason::kNone && received.frame.kind == net::Frame::kUdp &&
           received.malformed == wire::ParseError::kNone;
  }
  // Returns true if a datagram must not learn or change anything about a request that began with
  // `auth`: its sender may not even have the tenant's key.
  static bool is_weaker(const wire::Header& header, wire::Auth auth) noexcept {
    return header.auth < auth;
  }
  // A datagram being handled.
  struct Arrived {
    rte_mbuf* mbuf;
    const net::Frame& frame;
    const wire::Datagram& datagram;
    const net::HashedKey& key;
    uint32_t session_hash;
    Received::Tag tag;
  };

  // worker.cc
  void ignore_after_waiting(size_t taken) noexcept;
  void set_intake(tenant::Intake intake) noexcept;
  void forget_incomplete() noexcept;
  void sweep() noexcept;
  void watch_link() noexcept;
  void note_conflict(const net::Frame& frame) noexcept;
  void publish() noexcept;

  // worker_spread.cc
  size_t fetch_shared(std::span<rte_mbuf*> out, size_t& passed) noexcept;
  bool has_shared_work() const noexcept;
  bool has_answers() const noexcept;
  bool owner_ignores() const noexcept;

  // worker_receive.cc
  void receive(std::span<rte_mbuf* const> mbufs) noexcept;
  void parse(rte_mbuf& mbuf, Received& received) noexcept;
  void check_tags(std::span<Received> burst) noexcept;
  void handle(rte_mbuf* mbuf, const Received& received) noexcept;
  net::Outcome on_frame(rte_mbuf* mbuf, const Received& received) noexcept;
  net::Outcome on_ping(const Arrived& arrived) noexcept;
  net::Outcome on_hello(const Arrived& arrived) noexcept;
  net::Outcome on_ack(const Arrived& arrived) noexcept;
  net::Outcome on_resend(const Arrived& arrived) noexcept;

  // worker_request.cc
  struct Verified {
    const tenant::Tenant* tenant = nullptr;
    const wire::Key* key = nullptr;
    net::DropReason refusal = net::DropReason::kNone;
    // Returns true if the sender has shown the tenant's key, or needs none. It may then learn of a
    // refusal.
    bool is_authentic() const noexcept {
      return refusal == net::DropReason::kNone || refusal == net::DropReason::kTokenRequired ||
             refusal == net::DropReason::kSessionsFull;
    }
  };
  Verified verify(const Arrived& arrived) noexcept;
  // Returns nullptr if the tenant has no key of this epoch.
  static const wire::Key* key_of_epoch(const tenant::Tenant& tenant, uint16_t epoch) noexcept;
  net::DropReason check_key(const Arrived& arrived, Verified& verified) noexcept;
  net::DropReason check_address(const Arrived& arrived, const tenant::Tenant& tenant,
                                net::Session* session, const net::SessionKey& key) noexcept;
  net::Outcome on_request(const Arrived& arrived) noexcept;
  net::Outcome on_new_request(const Arrived& arrived, const Verified& verified) noexcept;
  net::Outcome add_piece(net::Context& context, const Arrived& arrived) noexcept;
  void dispatch(net::Context& context) noexcept;
  void lend() noexcept;
  // Returns the end of a token's validity; 0: it is not valid.
  uint64_t token_end_ns(const Arrived& arrived) const noexcept;
  uint64_t token_of(const Arrived& arrived, uint64_t period) const noexcept;

  // worker_respond.cc
  void send_datagram(wire::Header header, std::span<const std::byte> payload, const wire::Key& key,
                     const net::Endpoint& peer) noexcept;
  net::Outcome refuse(const Arrived& arrived, const Verified& verified, net::DropReason reason,
                      wire::StatusCode status, const char* detail,
                      uint32_t retry_after_us = 0) noexcept;
  void trace_refused(const wire::Header& asked, wire::StatusCode status) noexcept;
  net::Outcome refuse_for_model(const tenant::ServedModel& model, const Arrived& arrived,
                                const Verified& verified, net::DropReason reason,
                                wire::StatusCode status, const char* detail) noexcept;
  void expire(net::Context& context) noexcept;
  void answer_repeat(net::Context& context, const net::Endpoint& peer) noexcept;
  void finish(net::Context& context) noexcept;
  void give_up(net::Context& context, net::DropReason reason, wire::StatusCode status,
               const char* detail) noexcept;
  void forget(net::Context& context, net::DropReason reason) noexcept;
  uint32_t release(net::Context& context) noexcept;
  void take_packets(net::Context& context) noexcept;
  bool respond(net::Context& context) noexcept;
  void respond_status(net::Context& context) noexcept;
  void account_end(net::Context& context) noexcept;
  void record_sent() noexcept;
  void ask_for_missing(net::Context& context) noexcept;
  // Sends a part of a cached answer again. Returns kNone, or why not: it is being sent, was sent
  // too often, or the transmit queue, or the tenant's share of it, is full.
  net::DropReason transmit_cached(net::CachedResponse& entry, const Arrived& arrived,
                                  const Verified& verified, const net::Cursor& cursor) noexcept;
  wire::Header answer_header(const net::Context& context, wire::Type type) const noexcept;

  const net::Port& port_;
  Shared& shared_;
  WorkerOptions options_;
  net::Reassembler reassembler_;
  net::RefusedKeys refused_;
  net::SessionTable sessions_;
  net::ReplyLimiter unproven_;
  net::ResponseCache cache_;
  net::TransmitQueue transmit_;
  net::TxBuffer tx_;
  const bool shares_queue_;
  std::unique_ptr<Spreader> spreader_;  // of an owner that shares its queue
  net::DeathRow death_row_;
  std::unique_ptr<ReturnRing> returns_;
  telemetry::WorkerCounters counters_;
  telemetry::TenantCounterTable tenants_;
  StageRecorder stages_;
  TenantLatencyTable latencies_;
  static constexpr size_t kBurst = Spreader::kMaxBurst;
  std::array<Received, kBurst> received_;
  // Complete requests that lend() will give to their groups: within the poll, a few at once, for
  // one clock reading and one ring operation.
  static constexpr size_t kLentAtOnce = 32;
  std::array<request::Request*, kLentAtOnce> lent_{};
  std::array<GroupInbox*, kLentAtOnce> lent_to_{};
  size_t num_lent_ = 0;
  const std::vector<std::vector<std::byte>> announcements_;
  bool link_up_;
  bool link_removed_ = false;

  const tenant::Snapshot* snapshot_ = nullptr;  // of this poll
  std::atomic<tenant::Intake> intake_{tenant::Intake::kAccept};
  size_t num_taken_ = 0;                       // frames, since the snapshot's intake is kIgnore
  const tenant::Tenant* addressee_ = nullptr;  // of the datagram being handled
  uint64_t now_ns_ = 0;                        // of this poll
  uint64_t answer_ns_ = 0;                     // when this poll began to answer
  uint64_t next_sequence_;                     // of the next datagram sent
  bool found_work_ = false;                    // the last poll
  uint64_t next_sweep_ns_ = 0;
  uint64_t next_stages_ns_ = 0;
  uint64_t next_link_ns_ = 0;
  uint64_t next_conflict_ns_ = 0;
  uint64_t published_answers_ = 0;
  std::atomic<bool> stopping_{false};
};

}  // namespace itif::pipeline
