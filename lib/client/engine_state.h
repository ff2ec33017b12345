// The engine's state, private to lib/client: slots of requests in flight, flows, timers.
//
// A slot is free or holds one request. Its number is the low bits of the request id, so an arriving
// datagram finds its request by indexing. A request's states:
//
//   kAwaitingToken ── token arrived ──► kWaiting, which sends the request
//   kWaiting ──whole response / status / tries or time exhausted──► ended (outcome)
//     │  ▲
//     │  └─ status token_required: a hello asks for a token; the request is sent again with it
//     └──── temporary refusal ──► kPaused ── retry-after elapsed ──► kWaiting, a new id
//
// A request without a valid token of its flow begins in kAwaitingToken, the others in kWaiting.
//
// engine_state.cc starts and ends requests, engine_send.cc sends, engine_receive.cc handles
// arriving datagrams, engine_timers.cc handles silence.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/timer_wheel.h"
#include "client/buffer_pool.h"
#include "client/index_list.h"
#include "client/newest_sequence.h"
#include "client/reassembly.h"
#include "client/smoothed_time.h"
#include "client/transport.h"
#include "client/types.h"
#include "wire/geometry.h"
#include "wire/ranges.h"

namespace itif::client {

constexpr uint32_t kSendBatch = 64;
constexpr uint32_t kReceiveBatch = 64;
constexpr size_t kMaxHeadBytes = wire::kHeaderBytes + wire::kTagBytes;

class EngineState {
 public:
  EngineState(const Clock& clock, Transport& transport, OutcomeSink& sink,
              const EngineOptions& options);
  ~EngineState();

  Submit submit(const RequestSpec& spec) noexcept;
  size_t poll() noexcept;
  size_t flush() noexcept;
  void cancel_all() noexcept;
  uint32_t in_flight() const noexcept { return capacity_ - static_cast<uint32_t>(free_.size()); }
  bool has_unsent() const noexcept;
  uint64_t next_timer_ns() const noexcept { return wheel_.next_ns(); }
  const EngineStats& stats() const noexcept { return stats_; }

 private:
  enum class Phase : uint8_t { kFree, kWaiting, kAwaitingToken, kPaused };

  // A range of a request's payload to send; whole pieces.
  struct SendRange {
    uint32_t from = 0;
    uint32_t to = 0;
  };
  static constexpr uint32_t kMaxSendRanges = 8;

  struct Slot {
    RequestSpec spec;
    uint64_t request_id = 0;
    Phase phase = Phase::kFree;
    uint8_t num_ranges = 0;
    uint8_t next_range = 0;
    uint32_t flow = 0;
    uint32_t sends = 0;         // of the request, in total
    uint32_t silent_tries = 0;  // sends since the server last replied
    uint32_t token_refusals = 0;
    uint32_t refusal_retries = 0;
    uint64_t sent_token = 0;  // the address token in the last piece at offset 0
    // The last refusal without a tag, or token_required: the outcome if no answer arrives. kOk:
    // none.
    wire::StatusCode hint = wire::StatusCode::kOk;
    uint64_t submitted_ns = 0;
    uint64_t give_up_ns = 0;
    uint64_t deadline_ns = 0;  // of the first try; UINT64_MAX: none
    uint32_t budget_us = 0;    // of this try
    uint64_t action_ns = 0;    // when to act on silence
    uint64_t probe_ns = 0;     // when to act if the request is probably lost; UINT64_MAX: never
    uint64_t armed_ns = 0;     // the time set in the wheel; never later than the next action
    uint64_t rto_ns = 0;
    uint64_t started_ns = 0;    // of this try
    bool is_busy = false;       // the server named the time of the next repeat
    bool was_repeated = false;  // in this try, since the server last said that it has the request
    bool is_known = false;      // the server has said since then that it has the request, or parts
    NewestSequence newest;      // of the server's datagrams about this request
    Reassembly response;
    uint64_t last_piece_ns = 0;  // of the response; 0: none
    uint64_t asked_ns = 0;       // the last ask for its missing pieces; 0: none is open
    uint32_t num_asks = 0;       // since pieces last came in answer to one
    std::array<SendRange, kMaxSendRanges> ranges;
  };

  // A complete ack, resend or hello, kept until the transport takes it.
  struct ControlDatagram {
    std::array<std::byte, kMaxHeadBytes + wire::kMaxRanges * sizeof(wire::Range)> bytes;
    uint32_t size = 0;
  };
  static constexpr uint32_t kControlQueue = 64;

  // Pieces whose heads are built. Between calls: only pieces that the transport did not take; they
  // are sent later as they are, because their sequence numbers must not be used again.
  struct Staged {
    std::array<std::array<std::byte, kMaxHeadBytes>, kSendBatch> heads;
    // Encrypted pieces, kSendBatch × fragment_bytes; a caller's payload is never changed. nullptr
    // before the flow's first sealed request.
    std::unique_ptr<std::byte[]> sealed;
    std::array<Outgoing, kSendBatch> datagrams;
    std::array<uint32_t, kSendBatch> slots;
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  // A hello is repeated until a token arrives. The low bits of its id count the repeats, so that
  // the answer to any of them is accepted and measures the round trip.
  static constexpr uint32_t kHelloIds = 8;
  static constexpr uint64_t kDefaultTokenLifeNs = 30'000'000'000;

  struct Flow {
    uint64_t next_sequence = 0;
    uint64_t token = 0;  // 0: none
    uint64_t token_life_ns = kDefaultTokenLifeNs;
    uint64_t token_renew_ns = UINT64_MAX;
    uint64_t token_expires_ns = UINT64_MAX;
    bool hello_pending = false;
    uint64_t hello_id = 0;  // of the first
    uint32_t num_hellos = 0;
    uint64_t hello_rto_ns = 0;
    std::array<uint64_t, kHelloIds> hello_sent_ns{};
    uint32_t control_begin = 0;  // ring positions, modulo kControlQueue
    uint32_t control_end = 0;
    std::array<ControlDatagram, kControlQueue> control;
    Staged staged;
  };

  // engine_state.cc
  void start(uint32_t index, uint64_t now_ns) noexcept;
  void finish(uint32_t index, const Outcome& outcome) noexcept;
  void finish_lost(uint32_t index, uint64_t now_ns) noexcept;
  Outcome outcome_of(const Slot& slot, OutcomeKind kind, uint64_t now_ns) const noexcept;
  void deliver() noexcept;

  // engine_send.cc
  void queue_whole(uint32_t index) noexcept;
  void queue_probe(uint32_t index) noexcept;
  void queue_range(uint32_t index, SendRange range) noexcept;
  void enter_send_list(uint32_t index) noexcept;
  bool reserve_sealed(uint32_t flow_index) noexcept;
  size_t flush_flow(uint32_t flow_index) noexcept;
  bool send_control(uint32_t flow_index, size_t& budget) noexcept;
  bool send_staged(uint32_t flow_index, size_t& budget) noexcept;
  void stage(uint32_t flow_index, size_t budget) noexcept;
  void unstage(uint32_t index) noexcept;
  bool queue_control(uint32_t flow_index, wire::Header header, std::span<const std::byte> payload,
                     const wire::Key& key) noexcept;
  wire::Header header_of(const Slot& slot, wire::Type type) const noexcept;
  void send_ack(const Slot& slot) noexcept;
  void ask_for_missing(const Slot& slot) noexcept;
  void say_hello(uint32_t flow_index, uint64_t now_ns) noexcept;

  // engine_receive.cc
  void on_datagram(const Incoming& incoming, uint64_t now_ns) noexcept;
  bool handle(const Incoming& incoming, uint64_t now_ns, Drop& why) noexcept;
  bool authentic(const Slot& slot, const wire::Datagram& datagram) const noexcept;
  bool is_hint(const Slot& slot, const wire::Header& header) const noexcept;
  bool on_response(uint32_t index, const wire::Datagram& datagram, bool is_newest, uint64_t now_ns,
                   Drop& why) noexcept;
  bool on_status(uint32_t index, const wire::Datagram& datagram, uint64_t now_ns) noexcept;
  bool on_resend(uint32_t index, const wire::Datagram& datagram, uint64_t now_ns,
                 Drop& why) noexcept;
  void on_busy(uint32_t index, const wire::Header& header, uint64_t now_ns) noexcept;
  void on_token_required(uint32_t index, uint64_t token, uint64_t now_ns) noexcept;
  static void keep_token(Flow& flow, uint64_t token, uint64_t now_ns) noexcept;
  void retry_with_token(uint32_t index, uint64_t now_ns) noexcept;
  void send_with_token(uint32_t index, uint64_t now_ns) noexcept;
  bool on_token(uint32_t flow_index, const wire::Header& header, uint64_t now_ns,
                Drop& why) noexcept;

  // engine_timers.cc
  uint64_t rto_ns() const noexcept;
  bool is_probably_lost(uint32_t index) noexcept;
  uint64_t gap_ns() const noexcept;
  uint64_t ask_rto_ns() const noexcept;
  bool note_piece(Slot& slot, uint64_t now_ns) noexcept;
  void wait_for_pieces(uint32_t index, bool is_answer, uint64_t now_ns) noexcept;
  void wait_for_answer(uint32_t index, uint64_t now_ns) noexcept;
  void arm(uint32_t index, uint64_t action_ns, uint64_t probe_ns = UINT64_MAX) noexcept;
  void on_timer(uint32_t index, uint64_t now_ns) noexcept;
  void on_silence(uint32_t index, uint64_t now_ns) noexcept;
  void await_token(uint32_t index, uint64_t now_ns) noexcept;

  const Clock& clock_;
  Transport& transport_;
  OutcomeSink& sink_;
  const EngineOptions options_;
  const uint32_t capacity_;  // a power of two
  const uint32_t num_flows_;
  uint64_t next_sequence_;  // bits of the next request id above the slot number
  uint32_t next_flow_ = 0;
  SmoothedTime latency_;             // of answers
  SmoothedTime round_trip_;          // of hello and token, and of asks for missing pieces
  uint64_t spread_ns_ = 0;           // a decaying maximum: between two pieces of a response
  uint64_t newest_answered_ns_ = 0;  // the latest start of an answered request
  uint32_t prober_ = UINT32_MAX;     // slot, see is_probably_lost(); UINT32_MAX: none
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;  // free slots, a stack
  TimerWheel wheel_;
  IndexLists send_lists_;   // a list per flow: slots with pieces to send
  IndexLists token_lists_;  // a list per flow: slots in kAwaitingToken, or whose token was refused
  std::vector<std::unique_ptr<Flow>> flows_;
  BufferPool pool_;
  std::array<Incoming, kReceiveBatch> incoming_;
  std::vector<Outcome> outcomes_;                    // ended, not yet delivered
  std::vector<BufferPool::Buffer> outcome_buffers_;  // memory of results in outcomes_
  bool cancelling_ = false;
  EngineStats stats_;
};

}  // namespace itif::client
