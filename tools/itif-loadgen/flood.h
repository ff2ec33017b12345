// Flood mode: sends datagrams as fast as possible or at a given rate, a share of them damaged. It
// waits for the address tokens of its flows, at most a second, and renews them. It neither retries
// nor waits for answers; it counts received datagrams by type.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "client/transport.h"
#include "damage.h"
#include "live.h"
#include "options.h"
#include "request_mix.h"
#include "schedule.h"
#include "sender.h"

namespace itif::loadgen {

struct FloodResults {
  uint64_t requests = 0;        // complete and undamaged
  uint64_t datagrams_sent = 0;  // damaged ones included
  uint64_t bytes_sent = 0;
  std::array<uint64_t, kNumDamages> damaged{};
  std::array<uint64_t, 16> received{};  // by wire::Type
  std::array<uint64_t, wire::kNumStatusCodes> statuses{};
  uint64_t malformed_received = 0;
  uint32_t num_flows = 0;
  uint32_t flows_with_token = 0;  // the server drops requests of the others
  uint64_t elapsed_ns = 0;

  uint64_t total_damaged() const noexcept;
  void merge(const FloodResults& other) noexcept;
};

std::string flood_table(const FloodResults& results);
nlohmann::ordered_json flood_json(const Options& options, const FloodResults& results);

class Flooder {
 public:
  // Arguments as for Sender. A flood does not use ClientEngine.
  Flooder(const Clock& clock, client::Transport& transport, const SenderConfig& config);
  // Sends a batch if one is due, and counts received datagrams. Returns false at the end of the
  // flood.
  bool step() noexcept;
  void run() noexcept;

  const FloodResults& results() const noexcept { return results_; }
  LiveFeed& live() noexcept { return live_; }

 private:
  static constexpr size_t kBatch = 64;

  // A source port. The server accepts each sequence number once, and only with a token of its own.
  struct Flow {
    uint64_t token = 0;  // 0: none yet
    uint64_t next_sequence = 0;
    uint64_t hello_ns = 0;  // when to say hello next
  };

  void say_hellos(uint64_t now_ns) noexcept;
  void keep_token(uint32_t flow, uint64_t token, uint32_t life_us) noexcept;
  bool may_begin(uint64_t now_ns) const noexcept;
  // Fills entry `index` of the batch.
  void make(size_t index) noexcept;
  void make_damaged(size_t index, uint32_t target) noexcept;
  void make_piece(size_t index) noexcept;
  void receive() noexcept;

  const Clock& clock_;
  client::Transport& transport_;
  const SenderConfig config_;
  const Options& options_;
  uint64_t begin_ns_ = 0;  // of sending requests; 0: tokens are missing
  Schedule schedule_;
  RequestMix mix_;
  Random random_;
  uint64_t next_id_;
  std::vector<Flow> flows_;
  uint32_t flow_ = 0;

  // The undamaged request that is being sent piece by piece.
  RequestMix::Draw current_;
  uint32_t offset_ = 0;
  bool in_request_ = false;

  std::array<client::Outgoing, kBatch> batch_;
  size_t batch_begin_ = 0;
  size_t batch_end_ = 0;
  std::array<std::array<std::byte, wire::kHeaderBytes + wire::kTagBytes>, kBatch> heads_;
  std::vector<std::byte> scratch_;  // kMaxDamagedBytes per entry of the batch
  std::vector<std::byte> sealed_;  // fragment_bytes per entry, if a target's payloads are encrypted
  FloodResults results_;
  LiveCounts live_counts_;
  Histogram no_latencies_;
  LiveFeed live_;
};

}  // namespace itif::loadgen
