// The data plane's view of the tenants: an immutable table that control replaces as a whole.
//
// Control builds a Snapshot and publishes it in a SnapshotCell. It may free the previous one only
// after every reader was seen quiescent since the publication (SnapshotCell::readers_passed).
// Readers take no lock; the only shared memory they write is their own counter.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenant/lease.h"
#include "tenant/record.h"

namespace itif::tenant {

// A loaded version of a tenant's model.
struct ServedModel {
  uint32_t version = 1;
  uint16_t group = 0;
  uint32_t slot = 0;
  uint32_t max_payload_bytes = 0;  // a longer payload is too long for the model
  uint32_t max_tokens = 0;
  uint16_t payload_kinds = 0;  // bit k: wire::PayloadKind k is accepted
  std::shared_ptr<Lease> lease;
};

// The ServedModel is that of the active version.
struct Tenant : Identity, Settings, ServedModel {
  uint32_t index = 0;  // dense and stable while the tenant lives: indexes counters; < kMaxTenants
  std::optional<ServedModel> canary;
  uint32_t canary_percent = 0;  // of the tenant's requests; 0: there is no canary

  // Returns the model that answers a request. A request and its repeats get the same one, as long
  // as neither the versions nor the percentage change.
  const ServedModel& model_for(uint32_t session, uint64_t request_id) const noexcept {
    return canary && is_for_canary(session, request_id, canary_percent) ? *canary : *this;
  }
  // Returns true for `percent` % of all requests, by a hash of both numbers.
  static bool is_for_canary(uint32_t session, uint64_t request_id, uint32_t percent) noexcept;
};

constexpr uint32_t kMaxTenants = 4096;

// The treatment of requests that workers do not know yet.
enum class Intake : uint8_t {
  kAccept,
  kRefuse,  // with the status `draining`
  kIgnore,  // another process accepts those that arrive from now on: forget incomplete ones, too
};

class Snapshot {
 public:
  // Errors: none. REQUIRES: ids are distinct.
  explicit Snapshot(std::vector<Tenant> tenants, uint64_t generation = 0,
                    Intake intake = Intake::kAccept);
  // Returns nullptr if no tenant has this id. Lock-free.
  const Tenant* find(uint32_t id) const noexcept;
  const std::vector<Tenant>& tenants() const noexcept { return tenants_; }
  uint64_t generation() const noexcept { return generation_; }
  Intake intake() const noexcept { return intake_; }

 private:
  std::vector<Tenant> tenants_;
  std::vector<uint32_t> table_;  // open addressing: index + 1 into tenants_, 0 empty
  uint64_t generation_;
  Intake intake_;
};

// Holds the current snapshot. One publisher (control), up to kMaxReaders readers.
class SnapshotCell {
 public:
  static constexpr size_t kMaxReaders = 64;

  SnapshotCell();
  // Returns the current snapshot, valid until reader `r` calls acquire(r) or go_idle(r). A reader
  // calls it at the top of its loop.
  const Snapshot& acquire(size_t r) noexcept;
  // Reader `r` holds no snapshot until its next acquire().
  void go_idle(size_t r) noexcept;

  // Publisher only. Readers acquire the new snapshot from now on. reclaim() frees retired snapshots
  // once no reader can hold them.
  void publish(std::unique_ptr<const Snapshot> next);
  // Returns true once every active reader has acquired a snapshot of at least `generation`.
  bool readers_passed(uint64_t generation) const noexcept;
  void reclaim();
  const Snapshot& current() const noexcept { return *current_.load(std::memory_order_acquire); }

 private:
  static constexpr uint64_t kIdle = UINT64_MAX;
  struct alignas(64) Reader {
    std::atomic<uint64_t> generation{kIdle};
    const Snapshot* held = nullptr;  // touched by the reader alone
  };

  std::atomic<const Snapshot*> current_;
  std::array<Reader, kMaxReaders> readers_;
  std::vector<std::unique_ptr<const Snapshot>> owned_;  // publisher only
};

}  // namespace itif::tenant
