// Histograms of the time that requests spend in each stage. One thread writes, others read.
//
// The owner records into private histograms and copies them at intervals into a published snapshot
// (330 KiB, about 20 µs). Readers get the newest snapshot and never access the private histograms.
// The owner never waits for readers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/histogram.h"

namespace itif::telemetry {

// The stages of an answered request follow each other without gaps: reassembly to send add up to
// total.
enum class Stage : uint8_t {
  kReassembly,  // first piece → last piece
  kVerify,      // last piece → verified and lent to the group
  kIntake,      // lent → checked, prepared (text: tokens) and in the group's queue
  kQueue,    // in the queue → chosen for a batch; also lent → the group's thread ends a batch
  kPlan,     // chosen → the batch is laid out
  kLaunch,   // laid out → its pass begins on the device
  kCompute,  // begun → computed
  kRespond,  // computed → the worker begins to build the response
  kSend,     // first datagram of the response → last datagram handed to the port
  kTotal,    // first piece → last datagram of the response handed to the port
  kExpire,   // deadline → refusal handed over for transmission
  kCount,
};
constexpr size_t kNumStages = static_cast<size_t>(Stage::kCount);
// Stages of answered requests: kReassembly to kTotal.
constexpr size_t kNumRequestStages = static_cast<size_t>(Stage::kExpire);
// "reassembly", "verify", "intake", …
const char* stage_name(Stage stage) noexcept;

class StageHistograms {
 public:
  using Set = std::array<Histogram, kNumStages>;

  // Owner.
  void record(Stage stage, uint64_t ns) noexcept { live_[static_cast<size_t>(stage)].record(ns); }
  void record(Stage stage, std::span<const uint64_t> ns) noexcept {
    live_[static_cast<size_t>(stage)].record(ns);
  }
  // Owner: publishes a copy of the recorded histograms. Returns false, and does nothing, while a
  // reader is copying: call it again then.
  bool publish() noexcept;

  // Any thread: adds the newest published histograms to `into`.
  void merge_into(Set& into) const;

 private:
  Set live_;  // owner only
  // The owner uses try_lock only; readers hold the lock while they copy.
  mutable std::mutex published_mutex_;
  Set published_;
};

}  // namespace itif::telemetry
