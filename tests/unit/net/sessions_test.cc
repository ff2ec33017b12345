// Replay windows against a set of numbers, the table of sessions, and the limit of replies to
// unproven addresses.
#include "net/sessions.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "base/random.h"
#include "net/reply_limiter.h"

namespace itif::net {
namespace {

TEST(ReplayWindow, AcceptsEachNumberOnceAndForgetsOnlyOldOnes) {
  Random random(3);
  for (const uint64_t spread : {8u, 500u, 1900u, 5000u, 100'000u}) {
    ReplayWindow window;
    uint64_t newest = 1'000'000;
    std::set<uint64_t> seen = {newest};
    window.start(newest);
    uint64_t refused_unseen = 0;
    for (int i = 0; i < 50'000; ++i) {
      const uint64_t number = newest - spread + random.below(2 * spread);
      const bool in_window = number > newest || newest - number < ReplayWindow::kWindow;
      const bool expected = in_window && !seen.contains(number);
      ASSERT_EQ(window.is_fresh(number), expected) << number << " newest " << newest;
      refused_unseen += !expected && !seen.contains(number);
      if (!expected) continue;
      window.add(number);
      seen.insert(number);
      newest = std::max(newest, number);
    }
    EXPECT_EQ(refused_unseen > 0, spread > ReplayWindow::kWindow) << spread;
  }
}

TEST(ReplayWindow, JumpsPastTheWholeWindowAndToTheLargestNumber) {
  ReplayWindow window;
  window.start(5);
  for (uint64_t number = 6; number < 5000; ++number) window.add(number);
  const uint64_t far = 5000 + 100 * ReplayWindow::kWindow;
  window.add(far);
  EXPECT_FALSE(window.is_fresh(far));
  EXPECT_TRUE(window.is_fresh(far - 1)) << "numbers that were jumped over may still arrive";
  EXPECT_FALSE(window.is_fresh(far - ReplayWindow::kWindow));
  EXPECT_TRUE(window.is_fresh(UINT64_MAX));
  window.add(UINT64_MAX);
  EXPECT_FALSE(window.is_fresh(UINT64_MAX));
  EXPECT_FALSE(window.is_fresh(0)) << "numbers do not wrap";
}

Endpoint peer_at(uint8_t last, uint16_t port = 40000) {
  Endpoint peer;
  peer.peer_address = {198, 18, 0, last};
  peer.peer_port = port;
  return peer;
}

Session* find(SessionTable& table, const SessionKey& key) {
  return table.find(key, table.hash_of(key));
}
Session* create(SessionTable& table, const SessionKey& key, uint32_t tenant_index,
                uint64_t first_sequence, uint64_t now_ns) {
  return table.create(key, table.hash_of(key), tenant_index, first_sequence, now_ns);
}

TEST(SessionTable, FindsExactlyTheSessionOfTenantAddressAndPort) {
  SessionTable table({.max_sessions = 16, .max_tenants = 4, .idle_ns = 1000}, 1);
  const SessionKey key = session_key(7, 77, peer_at(2));
  Session* session = create(table, key, 3, 100, 0);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(find(table, key), session);
  EXPECT_EQ(find(table, session_key(8, 77, peer_at(2))), nullptr);
  EXPECT_EQ(find(table, session_key(7, 78, peer_at(2))), nullptr);
  EXPECT_EQ(find(table, session_key(7, 77, peer_at(3))), nullptr);
  EXPECT_EQ(find(table, session_key(7, 77, peer_at(2, 40001))), nullptr);
  Endpoint ipv6 = peer_at(2);
  ipv6.ip_version = 6;
  EXPECT_EQ(find(table, session_key(7, 77, ipv6)), nullptr);
  ipv6.peer_address[15] = 1;
  EXPECT_EQ(find(table, session_key(7, 77, ipv6)), nullptr);
}

TEST(SessionTable, NeverEvictsALiveSessionAndReusesIdleOnes) {
  SessionTable table({.max_sessions = 16, .max_tenants = 4, .idle_ns = 1000}, 1);
  uint32_t greedy = 0;
  while (create(table, session_key(1, greedy, peer_at(2)), 0, 1, 0) != nullptr) ++greedy;
  EXPECT_EQ(greedy, 8u) << "a tenant may hold at most as many as remain free";
  Session* other = create(table, session_key(2, 0, peer_at(2)), 1, 1, 500);
  ASSERT_NE(other, nullptr);
  table.expire(1000, 16);
  EXPECT_EQ(table.size(), 9u) << "all are young enough";
  table.expire(1001, 16);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(find(table, session_key(2, 0, peer_at(2))), other);
  for (uint32_t i = 0; i < 8; ++i)
    EXPECT_NE(create(table, session_key(1, i, peer_at(3)), 0, 1, 2000), nullptr) << i;
}

TEST(SessionTable, AgreesWithASetOverRandomLives) {
  Random random(5);
  SessionTable table({.max_sessions = 64, .max_tenants = 1, .idle_ns = 50}, 9);
  std::map<uint32_t, uint64_t> alive;  // session → last use
  for (uint64_t now_ns = 1; now_ns < 20'000; ++now_ns) {
    const auto id = static_cast<uint32_t>(random.below(40));
    Session* found = find(table, session_key(1, id, peer_at(static_cast<uint8_t>(id))));
    ASSERT_EQ(found != nullptr, alive.contains(id));
    if (found != nullptr) {
      found->last_ns = now_ns;
      alive[id] = now_ns;
    } else if (create(table, session_key(1, id, peer_at(static_cast<uint8_t>(id))), 0, 1, now_ns)) {
      alive[id] = now_ns;
    }
    table.expire(now_ns, 64);
    std::erase_if(alive, [&](const auto& each) { return now_ns - each.second > 50; });
    ASSERT_EQ(table.size(), alive.size());
  }
}

TEST(ReplyLimiter, LimitsEachNetworkAlone) {
  auto limiter = std::make_unique<ReplyLimiter>(1000, 1);
  uint32_t first = 0, second = 0;
  for (uint64_t now_ns = 0; now_ns < 2'000'000'000; now_ns += 100'000) {  // 10,000/s, for 2 s
    first += limiter->allow(peer_at(static_cast<uint8_t>(now_ns / 100'000)), now_ns);
    if (now_ns % 10'000'000 == 0) {  // 100/s
      Endpoint other = peer_at(1);
      other.peer_address[2] = 9;
      second += limiter->allow(other, now_ns);
    }
  }
  EXPECT_NEAR(first, 2100, 10);  // and a burst of a tenth of a second
  EXPECT_EQ(second, 200u);
  ReplyLimiter closed(0, 1);
  EXPECT_FALSE(closed.allow(peer_at(1), 1));
}

}  // namespace
}  // namespace itif::net
