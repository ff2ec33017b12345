#include <map>
#include <numeric>

#include "base/random.h"
#include "reassembly_fixture.h"

namespace itif::net::test {
namespace {

// Random pieces of random requests, with wrong headers, duplicates, losses and time passing. The
// outcomes of all datagrams must sum to the datagrams fed in, and every buffer must be freed.
TEST_F(Reassembly, Storm) {
  make({.max_contexts = 40,
        .max_held_bytes = 400 * 2176,
        .tenant_max_contexts = 8,
        .tenant_max_held_bytes = 200 * 2176,
        .piece_slots = 1024,
        .timeout_ns = 50 * kMs,
        .stall_ns = 5 * kMs});
  Random random(2026);
  uint64_t received = 0, forwarded = 0;
  DropCounts dropped{};
  std::map<uint64_t, uint32_t> total_of;
  std::vector<Context*> executing;
  uint64_t completed = 0;
  const auto total_dropped = [&] {
    return std::accumulate(dropped.begin(), dropped.end(), uint64_t{0});
  };
  for (int step = 0; step < 60'000; ++step) {
    const uint64_t id = random.below(60) + static_cast<uint64_t>(step) / 500;
    auto [entry, fresh] = total_of.try_emplace(id, 0);
    if (fresh) entry->second = static_cast<uint32_t>(random.below(random.below(4) ? 300 : 4000));
    const uint32_t total = entry->second;
    const uint32_t pieces = std::max(1u, (total + 63) / 64);
    wire::Header header =
        header_of(id, total, 64, static_cast<uint32_t>(random.below(pieces)) * 64);
    header.session = 77;
    if (random.below(50) == 0) header.total_bytes += static_cast<uint32_t>(random.below(3));
    if (random.below(50) == 0) header.offset = static_cast<uint32_t>(random.next());
    if (random.below(50) == 0) header.payload_bytes = static_cast<uint16_t>(random.below(1800));
    if (random.below(50) == 0) header.fragment_bytes = static_cast<uint16_t>(random.next());
    ++received;
    const auto added = feed(header, static_cast<uint32_t>(id % 4), random.below(8) ? 0 : 2);
    if (added.outcome.kind == Outcome::kDropped)
      ++dropped[static_cast<size_t>(added.outcome.reason)];
    if (added.whole) executing.push_back(added.context);
    if (executing.size() > 8) {
      const size_t i = random.below(executing.size());
      expect_intact(executing[i]->request);
      forwarded += reassembler_->release(*executing[i]);
      executing.erase(executing.begin() + static_cast<ptrdiff_t>(i));
      ++completed;
    }
    now_ns_ += random.below(kMs / 4);
    Reassembler::Due due[3];
    const size_t count = reassembler_->sweep(now_ns_, due);
    for (size_t i = 0; i < count; ++i)
      if (due[i].why == Reassembler::Due::kTimeout)
        dropped[static_cast<size_t>(DropReason::kReassemblyTimeout)] +=
            reassembler_->release(*due[i].context);
    reassembler_->flush();
    ASSERT_EQ(received, forwarded + reassembler_->held_pieces() + total_dropped());
    ASSERT_EQ(buffers_in_use(), reassembler_->held_pieces());
    ASSERT_EQ(reassembler_->held_bytes(), reassembler_->held_pieces() * 2176);
  }
  EXPECT_GT(completed, 100u);
  for (const DropReason reason : {DropReason::kDuplicate, DropReason::kLate,
                                  DropReason::kGeometryChanged, DropReason::kWireBadGeometry,
                                  DropReason::kReassemblyTimeout, DropReason::kTenantContextsFull})
    EXPECT_GT(dropped[static_cast<size_t>(reason)], 0u) << drop_reason_name(reason);
  reassembler_->for_each([&](Context& context) { reassembler_->release(context); });
  reassembler_->flush();
  EXPECT_EQ(buffers_in_use(), 0u);
  EXPECT_EQ(reassembler_->num_contexts(), 0u);
  for (uint32_t tenant = 0; tenant < 4; ++tenant) {
    EXPECT_EQ(reassembler_->tenant_contexts(tenant), 0u);
    EXPECT_EQ(reassembler_->tenant_held_bytes(tenant), 0u);
  }
}

}  // namespace
}  // namespace itif::net::test
