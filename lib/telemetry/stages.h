// How long requests spend in each stage, as histograms that one thread writes and others read.
//
// The owner records into private histograms and now and then copies them into a published snapshot
// (150 KiB, some 10 µs). Readers get the newest snapshot; they never touch what the owner writes to,
// and the owner never waits for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "base/histogram.h"

namespace itif::telemetry {

enum class Stage : uint8_t {
  kReassembly,  // first piece → complete
  kQueue,       // complete → its batch began
  kExecute,     // its batch
  kRespond,     // result → handed over for transmission
  kTotal,       // first piece → the response handed over for transmission
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
  // Owner: copies what it has recorded to where readers look. Nothing if a reader is copying just
  // now: the next call does it.
  void publish() noexcept;

  // Any thread: adds the newest published histograms to `into`.
  void merge_into(Set& into) const;

 private:
  Set live_;  // owner only
  // The owner only tries it (never waits); readers hold it while they copy.
  mutable std::mutex published_mutex_;
  Set published_;
};

}  // namespace itif::telemetry
