// The snapshot of the tenants, and the cell that replaces it while readers use it.
#include "tenant/snapshot.h"

#include <gtest/gtest.h>

#include <thread>

namespace itif::tenant {
namespace {

// A snapshot whose tenants all carry its generation.
std::unique_ptr<const Snapshot> snapshot(uint64_t generation, uint32_t num_tenants = 3) {
  std::vector<Tenant> tenants(num_tenants);
  for (uint32_t i = 0; i < num_tenants; ++i) {
    tenants[i].id = i + 1;
    tenants[i].index = i;
    tenants[i].slo_ns = generation;
    tenants[i].name = std::to_string(generation);
  }
  return std::make_unique<const Snapshot>(std::move(tenants), generation);
}

TEST(Tenant, CanaryAnswersItsPartOfAnySessionsRequests) {
  constexpr uint32_t kRequests = 100'000;
  for (const uint32_t percent : {0u, 1u, 5u, 50u, 99u}) {
    for (const uint32_t session : {0u, 1u, 0x5eed0001u}) {
      uint32_t chosen = 0;
      for (uint32_t i = 0; i < kRequests; ++i)  // ids count up
        chosen += Tenant::is_for_canary(session, 0x1122334455667788 + i, percent);
      EXPECT_NEAR(chosen, kRequests / 100 * percent, 0.005 * kRequests) << session;
      if (percent == 0) {
        EXPECT_EQ(chosen, 0u);
      }
    }
  }
  Tenant tenant;
  tenant.version = 1;
  tenant.canary_percent = 99;
  EXPECT_EQ(&tenant.model_for(1, 2), &tenant) << "a canary that is not loaded answers nothing";
  tenant.canary.emplace().version = 2;
  uint32_t by_canary = 0;
  for (uint32_t id = 0; id < 100; ++id) {
    const uint32_t version = tenant.model_for(1, id).version;
    EXPECT_EQ(version, tenant.model_for(1, id).version) << "a repeat gets the same version";
    by_canary += version == 2;
  }
  EXPECT_GT(by_canary, 90u);
}

TEST(Snapshot, FindsEveryTenantAndNoOther) {
  std::vector<Tenant> tenants;
  for (uint32_t i = 0; i < kMaxTenants; ++i) {
    Tenant& t = tenants.emplace_back();
    t.id = i * 64 + 1;  // sparse ids, as after years of use
    t.index = i;
  }
  const Snapshot all(std::move(tenants), 1);
  for (uint32_t id = 0; id < kMaxTenants * 64 + 100; ++id) {
    const Tenant* found = all.find(id);
    ASSERT_EQ(found != nullptr, id % 64 == 1 && id < kMaxTenants * 64) << id;
    if (found != nullptr) {
      ASSERT_EQ(found->id, id);
    }
  }
  EXPECT_EQ(Snapshot({}).find(0), nullptr);
}

TEST(SnapshotCell, FreesSnapshotsWithoutReaders) {
  SnapshotCell cell;
  const auto lease = std::make_shared<Lease>(1);
  std::vector<Tenant> tenants(1);
  tenants[0].lease = lease;
  cell.publish(std::make_unique<const Snapshot>(std::move(tenants), 1));
  EXPECT_EQ(lease.use_count(), 2);
  EXPECT_EQ(cell.acquire(5).generation(), 1u);
  cell.publish(snapshot(2));
  EXPECT_FALSE(cell.readers_passed(2));
  EXPECT_EQ(lease.use_count(), 2) << "reader 5 may still look at it";
  EXPECT_EQ(cell.acquire(5).generation(), 2u);
  EXPECT_TRUE(cell.readers_passed(2));
  cell.reclaim();
  EXPECT_EQ(lease.use_count(), 1);
}

TEST(SnapshotCell, AnIdleReaderHoldsNothing) {
  SnapshotCell cell;
  cell.publish(snapshot(1));
  cell.acquire(0);
  cell.publish(snapshot(2));
  EXPECT_FALSE(cell.readers_passed(2));
  cell.go_idle(0);
  EXPECT_TRUE(cell.readers_passed(2));
  EXPECT_EQ(cell.acquire(0).generation(), 2u) << "it resumes with the newest";
}

// Readers acquire snapshots and go idle in a loop while snapshots are replaced. A held snapshot
// must stay intact. If it is freed too early, sanitizers report it; without them its generations
// differ.
TEST(SnapshotCell, AHeldSnapshotStaysIntact) {
  SnapshotCell cell;
  cell.publish(snapshot(1));
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0}, looks{0};
  std::vector<std::thread> readers;
  for (size_t r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      uint64_t last = 0;
      for (uint64_t turn = 0; !stop.load(); ++turn) {
        const Snapshot& s = cell.acquire(r);
        if (s.generation() < last) ++wrong;  // generations only grow
        last = s.generation();
        for (const Tenant& t : s.tenants())
          if (t.slo_ns != s.generation() || t.name != std::to_string(s.generation())) ++wrong;
        if (turn % 7 == r) cell.go_idle(r);
        if (turn % 64 == 0) std::this_thread::yield();
        ++looks;
      }
      cell.go_idle(r);
    });
  }
  uint64_t generation = 1;
  while (generation < 3000 || looks.load() < 1000) {
    cell.publish(snapshot(++generation));
    if (generation % 16 == 0) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_TRUE(cell.readers_passed(generation));
}

}  // namespace
}  // namespace itif::tenant
