// How long requests spend in each stage, as histograms that one thread writes and others read.
//
// The owner records into private histograms and, only when a reader has asked, copies them into a
// published snapshot (150 KiB, some 10 µs). Readers ask, and get the newest snapshot; they never
// touch what the owner writes to, and the owner never waits for them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/histogram.h"

namespace itif::telemetry {

enum class Stage : uint8_t {
  kReassembly,  // first piece → complete
  kQueue,       // complete → its batch began
  kExecute,     // its batch
  kRespond,     // result → last datagram given to the port
  kTotal,       // first piece → last datagram of the response
  kCount,
};
constexpr size_t kNumStages = static_cast<size_t>(Stage::kCount);
// "reassembly", "queue", "execute", "respond", "total".
const char* stage_name(Stage stage) noexcept;

class StageHistograms {
 public:
  using Set = std::array<Histogram, kNumStages>;

  // Owner.
  void record(Stage stage, uint64_t ns) noexcept { live_[static_cast<size_t>(stage)].record(ns); }
  // Owner, once a turn of its loop: publishes if a reader asked since the last time. Returns at
  // once when none did, or when a reader is copying just now (then the next turn publishes).
  void publish_if_asked() noexcept {
    if (asked_.load(std::memory_order_relaxed)) publish();
  }
  // Owner, unconditionally: before it sleeps or ends.
  void publish() noexcept;

  // Any thread: adds the newest published histograms to `into`, and asks for newer ones.
  void merge_into(Set& into) const;

 private:
  Set live_;  // owner only
  mutable std::atomic<bool> asked_{true};
  // The owner only tries it (never waits); readers hold it while they copy.
  mutable std::mutex published_mutex_;
  Set published_;
};

}  // namespace itif::telemetry
