// Flood mode: datagrams as fast as they leave (or at a rate), a share of them damaged, no retries, no
// waiting for answers; what comes back is counted by type.
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
  uint64_t requests = 0;        // whole and undamaged
  uint64_t datagrams_sent = 0;  // damaged ones included
  uint64_t bytes_sent = 0;
  std::array<uint64_t, kNumDamages> damaged{};
  std::array<uint64_t, 16> received{};  // by wire::Type
  std::array<uint64_t, wire::kNumStatusCodes> statuses{};
  uint64_t malformed_received = 0;
  uint64_t elapsed_ns = 0;

  uint64_t total_damaged() const noexcept;
  void merge(const FloodResults& other) noexcept;
};

std::string flood_table(const FloodResults& results);
nlohmann::ordered_json flood_json(const Options& options, const FloodResults& results);

class Flooder {
 public:
  // As Sender; nothing of a flood is measured by the engine.
  Flooder(const Clock& clock, client::Transport& transport, const SenderConfig& config);
  // Sends one batch, if one is due, and counts what has arrived. False when it is over.
  bool step() noexcept;
  void run() noexcept;

  const FloodResults& results() const noexcept { return results_; }
  LiveFeed& live() noexcept { return live_; }

 private:
  static constexpr size_t kBatch = 64;

  // Fills the next place of the batch.
  void make(size_t place) noexcept;
  void make_damaged(size_t place, uint32_t target) noexcept;
  void make_piece(size_t place) noexcept;
  void receive() noexcept;

  const Clock& clock_;
  client::Transport& transport_;
  const SenderConfig config_;
  const Options& options_;
  const uint64_t until_ns_;
  Schedule schedule_;
  RequestMix mix_;
  Random random_;
  uint64_t next_id_;
  uint32_t flow_ = 0;

  // The undamaged request whose pieces are being sent.
  RequestMix::Draw current_;
  uint32_t offset_ = 0;
  bool in_request_ = false;

  std::array<client::Outgoing, kBatch> batch_;
  size_t batch_begin_ = 0;
  size_t batch_end_ = 0;
  std::array<std::array<std::byte, wire::kHeaderBytes + wire::kTagBytes>, kBatch> heads_;
  std::vector<std::byte> scratch_;  // kMaxDamagedBytes a place
  FloodResults results_;
  LiveCounts live_counts_;
  Histogram no_latencies_;
  LiveFeed live_;
};

}  // namespace itif::loadgen
