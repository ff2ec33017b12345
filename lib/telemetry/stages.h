// Histograms of the time that requests spend in each stage. One thread writes, others read.
//
// The owner records into private histograms and copies them at intervals into a published snapshot
// (150 KiB, about 10 µs). Readers get the newest snapshot and never access the private histograms.
// The owner never waits for readers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/histogram.h"

namespace itif::telemetry {

enum class Stage : uint8_t {
  kReassembly,  // first piece → complete
  kQueue,       // complete → start of its batch
  kExecute,     // start → end of its batch
  kRespond,     // result → handed over for transmission
  kTotal,       // first piece → response handed over for transmission
  kExpire,      // deadline → refusal handed over for transmission
  kCount,
};
constexpr size_t kNumStages = static_cast<size_t>(Stage::kCount);
// "reassembly", "queue", "execute", "respond", "total", "expire".
const char* stage_name(Stage stage) noexcept;

class StageHistograms {
 public:
  using Set = std::array<Histogram, kNumStages>;

  // Owner.
  void record(Stage stage, uint64_t ns) noexcept { live_[static_cast<size_t>(stage)].record(ns); }
  // Owner: publishes a copy of the recorded histograms. Does nothing while a reader is copying; the
  // next call publishes.
  void publish() noexcept;

  // Any thread: adds the newest published histograms to `into`.
  void merge_into(Set& into) const;

 private:
  Set live_;  // owner only
  // The owner uses try_lock only; readers hold the lock while they copy.
  mutable std::mutex published_mutex_;
  Set published_;
};

}  // namespace itif::telemetry
