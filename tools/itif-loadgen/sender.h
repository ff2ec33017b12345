// The work of one sending thread, without the thread: draws requests when they are due, gives them
// to a client engine, and records their outcomes. Time comes from the Clock, so that a test can
// stall a server and see the stall in the percentiles.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "client/engine.h"
#include "client/socket_transport.h"
#include "live.h"
#include "options.h"
#include "request_mix.h"
#include "results.h"
#include "schedule.h"

namespace itif::loadgen {

// Set by the signal handler, read by the senders.
enum class Stop : int { kNo = 0, kDrain = 1, kNow = 2 };

// Shared by the senders of a run. A run fails if its server cannot be reached and nothing was ever
// answered, not even within 300 ms of the first report: another kernel that has the address, too,
// may have sent it. Later the server may restart, and the run goes on.
struct Reachability {
  std::atomic<bool> has_answered{false};
  std::atomic<bool> has_failed{false};
};

struct SenderConfig {
  const Options* options = nullptr;
  const PayloadPool* pool = nullptr;
  const std::atomic<int>* stop = nullptr;            // Stop
  Reachability* reachability = nullptr;              // null: no transport reports it
  const client::SocketTransport* sockets = nullptr;  // the sender's transport; null: another kind
  uint32_t thread = 0;                               // 0 … options->threads − 1
  uint32_t session = 0;                              // random; differs between threads
  uint64_t first_request = 0;                        // random
  uint64_t first_sequence = 0;                       // random, 62 bits
  uint64_t start_ns = 0;                             // clock time; the same for all threads
};

class Sender final : public client::OutcomeSink {
 public:
  // Errors: those of ClientEngine. REQUIRES: all arguments, and what config points to, outlive the
  // sender.
  static Result<std::unique_ptr<Sender>> create(const Clock& clock, client::Transport& transport,
                                                const SenderConfig& config);

  // Receives, then sends the requests that are due. Returns the latest time for the next call.
  uint64_t step() noexcept;
  bool done() const noexcept { return phase_ == Phase::kDone; }
  // Calls step() until done(); sleeps in between unless options.busy.
  void run() noexcept;

  const Results& results() const noexcept { return results_; }
  // Why the sender has given up; nullopt: it has not.
  const std::optional<Error>& failure() const noexcept { return failure_; }
  LiveFeed& live() noexcept { return live_; }

  void on_outcomes(std::span<const client::Outcome> outcomes) noexcept override;

 private:
  enum class Phase : uint8_t { kSending, kDraining, kDone };

  // State of a request in flight. The engine's user tag is its index.
  struct Record {
    uint64_t intended_ns = 0;
    uint64_t sent_ns = 0;
    uint32_t target = 0;
    uint32_t num_tokens = 0;  // 0: not known
    uint32_t budget_us = 0;   // 0: no deadline
    bool measured = false;
  };

  Sender(const Clock& clock, client::Transport& transport, const SenderConfig& config);
  void send_due(uint64_t now_ns) noexcept;
  bool send_one(uint64_t intended_ns, uint64_t now_ns) noexcept;
  bool sent_all_due(uint64_t now_ns) const noexcept;
  bool gives_up(uint64_t now_ns) noexcept;
  void end_sending(uint64_t now_ns) noexcept;
  void finish() noexcept;
  uint64_t wake_ns(uint64_t now_ns) const noexcept;

  const Clock& clock_;
  client::Transport& transport_;
  const SenderConfig config_;
  const Options& options_;
  const uint64_t measure_from_ns_;
  const uint64_t send_until_ns_;
  const uint64_t max_requests_;   // this thread's share
  const uint32_t max_in_flight_;  // closed loop: this thread's concurrency
  Schedule schedule_;
  RequestMix mix_;
  std::unique_ptr<client::ClientEngine> engine_;
  std::vector<Record> records_;
  std::vector<uint32_t> free_records_;
  Phase phase_ = Phase::kSending;
  uint64_t drain_until_ns_ = UINT64_MAX;
  uint64_t looked_ns_ = 0;  // when the requests that were due were sent, as far as there was room
  uint64_t num_sent_ = 0;
  Results results_;
  uint64_t unreachable_since_ns_ = 0;  // 0: it is not
  std::optional<Error> failure_;
  LiveCounts live_counts_;
  Histogram live_interval_;
  LiveFeed live_;
};

}  // namespace itif::loadgen
