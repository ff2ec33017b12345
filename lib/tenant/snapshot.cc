#include "tenant/snapshot.h"

#include <bit>

#include "base/check.h"

namespace itif::tenant {
namespace {

uint32_t hash(uint32_t id) {
  return id * 0x9e3779b1u;
}

}  // namespace

// Source: the finaliser of splitmix64 (Steele, Lea and Flood, 2014), which spreads counted ids over
// all values.
bool Tenant::is_for_canary(uint32_t session, uint64_t request_id, uint32_t percent) noexcept {
  uint64_t x = request_id + session * uint64_t{0x9e3779b97f4a7c15};
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  x ^= x >> 31;
  return ((x >> 32) * 100) >> 32 < percent;
}

Snapshot::Snapshot(std::vector<Tenant> tenants, uint64_t generation, Intake intake)
    : tenants_(std::move(tenants)),
      table_(std::bit_ceil(tenants_.size() * 2 + 2)),
      generation_(generation),
      intake_(intake) {
  const size_t mask = table_.size() - 1;
  for (size_t i = 0; i < tenants_.size(); ++i) {
    CHECK(tenants_[i].index < kMaxTenants);
    size_t at = hash(tenants_[i].id) & mask;
    while (table_[at] != 0) {
      CHECK(tenants_[table_[at] - 1].id != tenants_[i].id);
      at = (at + 1) & mask;
    }
    table_[at] = static_cast<uint32_t>(i + 1);
  }
}

const Tenant* Snapshot::find(uint32_t id) const noexcept {
  const size_t mask = table_.size() - 1;
  for (size_t at = hash(id) & mask; table_[at] != 0; at = (at + 1) & mask) {
    const Tenant& tenant = tenants_[table_[at] - 1];
    if (tenant.id == id) return &tenant;
  }
  return nullptr;
}

SnapshotCell::SnapshotCell() {
  owned_.push_back(std::make_unique<Snapshot>(std::vector<Tenant>{}));
  current_.store(owned_.back().get(), std::memory_order_release);
}

const Snapshot& SnapshotCell::acquire(size_t r) noexcept {
  DCHECK(r < kMaxReaders);
  Reader& reader = readers_[r];
  const Snapshot* seen = current_.load(std::memory_order_acquire);
  if (seen == reader.held) return *seen;
  // Announce 0, which protects every snapshot, before the load. A publisher that saw this reader
  // idle read the counter before the announcement, and had stored its snapshot before that read.
  // The load below therefore sees that snapshot.
  reader.generation.store(0, std::memory_order_seq_cst);
  seen = current_.load(std::memory_order_seq_cst);
  reader.generation.store(seen->generation(), std::memory_order_seq_cst);
  reader.held = seen;
  return *seen;
}

void SnapshotCell::go_idle(size_t r) noexcept {
  readers_[r].held = nullptr;
  readers_[r].generation.store(kIdle, std::memory_order_seq_cst);
}

void SnapshotCell::publish(std::unique_ptr<const Snapshot> next) {
  CHECK(next->generation() > current().generation());
  owned_.push_back(std::move(next));
  current_.store(owned_.back().get(), std::memory_order_seq_cst);
  reclaim();
}

bool SnapshotCell::readers_passed(uint64_t generation) const noexcept {
  for (const Reader& reader : readers_) {
    if (reader.generation.load(std::memory_order_seq_cst) < generation) return false;
  }
  return true;
}

void SnapshotCell::reclaim() {
  while (owned_.size() > 1 && readers_passed(owned_[1]->generation())) owned_.erase(owned_.begin());
}

}  // namespace itif::tenant
