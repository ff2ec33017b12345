#include <algorithm>
#include <numeric>

#include "reassembly_fixture.h"

namespace itif::net::test {
namespace {

TEST_F(Reassembly, OnePieceRequestCompletesWithoutCopy) {
  const auto added = feed(header_of(1, 100, 1384, 0));
  ASSERT_TRUE(added.whole);
  EXPECT_EQ(added.outcome, Outcome::held());
  const request::Request& request = added.context->request;
  EXPECT_EQ(&Context::of(added.context->request), added.context);
  EXPECT_EQ(request.request_id, 1u);
  EXPECT_EQ(request.tenant_id, 5u);
  EXPECT_EQ(request.payload_kind, wire::PayloadKind::kTokensU16);
  EXPECT_EQ(request.arrival_ns, now_ns_);
  EXPECT_EQ(request.complete_ns, now_ns_);
  ASSERT_EQ(request.pieces.size(), 1u);
  const rte_mbuf* mbuf = added.context->inline_mbufs[0];
  EXPECT_EQ(request.pieces[0].data, rte_pktmbuf_mtod_offset(mbuf, const std::byte*, 92));
  expect_intact(request);
  EXPECT_EQ(reassembler_->held_pieces(), 1u);
  EXPECT_EQ(reassembler_->release(*added.context), 1u);
  EXPECT_EQ(buffers_in_use(), 1u);  // on the death row
  reassembler_->flush();
  EXPECT_EQ(buffers_in_use(), 0u);
  EXPECT_EQ(reassembler_->held_bytes(), 0u);
  EXPECT_EQ(find(1), nullptr);
}

// Requests of few pieces keep them in the context; larger requests have a separate piece table.
TEST_F(Reassembly, PiecesCanBeReleasedBeforeTheirRequest) {
  for (const uint32_t count : {1u, Context::kInlinePieces, 200u}) {
    make({.piece_slots = 512});
    Context* context = nullptr;
    for (uint32_t i = 0; i < count; ++i)
      context = feed(header_of(1, count * 64, 64, i * 64)).context;
    EXPECT_EQ(reassembler_->release_pieces(*context), count);
    EXPECT_EQ(reassembler_->held_pieces(), 0u);
    EXPECT_EQ(reassembler_->held_bytes(), 0u);
    EXPECT_EQ(reassembler_->tenant_held_pieces(0), 0u);
    EXPECT_EQ(reassembler_->tenant_held_bytes(0), 0u);
    EXPECT_TRUE(context->request.pieces.empty());
    reassembler_->flush();
    EXPECT_EQ(buffers_in_use(), 0u);
    // The context is still here, and a repeat counts as late.
    EXPECT_EQ(reassembler_->num_contexts(), 1u);
    EXPECT_EQ(drop_of(header_of(1, count * 64, 64, (count - 1) * 64)), DropReason::kLate);
    // Another request may reuse its piece table.
    for (uint32_t i = 0; i < 200; ++i) feed(header_of(2, 200 * 64, 64, i * 64));
    EXPECT_EQ(reassembler_->release_pieces(*context), 0u) << "released twice";
    EXPECT_EQ(reassembler_->release(*context), 0u);
    Context* other = find(2);
    expect_intact(other->request);
    EXPECT_EQ(reassembler_->held_pieces(), 200u);
    finish(*other);
  }
}

TEST_F(Reassembly, EmptyPayload) {
  const auto added = feed(header_of(1, 0, 64, 0));
  ASSERT_TRUE(added.whole);
  EXPECT_TRUE(added.context->request.pieces.empty());
  finish(*added.context);
}

TEST_F(Reassembly, EveryOrderOfFivePieces) {
  std::vector<uint32_t> order(5);
  std::iota(order.begin(), order.end(), 0);
  uint64_t id = 0;
  do {
    ++id;
    for (size_t i = 0; i < 5; ++i) {
      const auto added = feed(header_of(id, 4 * 64 + 9, 64, order[i] * 64));
      ASSERT_EQ(added.outcome, Outcome::held());
      ASSERT_EQ(added.whole, i == 4);
    }
    Context* context = find(id);
    ASSERT_EQ(context->request.pieces.size(), 5u);
    expect_intact(context->request);
    finish(*context);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(id, 120u);
}

TEST_F(Reassembly, DuplicatesChangeNothing) {
  feed(header_of(1, 192, 64, 64));
  Endpoint other;
  other.peer_port = 1;
  const Endpoint first = peer_;
  peer_ = other;
  EXPECT_EQ(drop_of(header_of(1, 192, 64, 64)), DropReason::kDuplicate);
  Context* context = find(1);
  EXPECT_EQ(context->peer, first);  // a replay does not redirect the answer
  EXPECT_EQ(context->num_arrived, 1u);
  feed(header_of(1, 192, 64, 0));
  EXPECT_EQ(context->peer, other);  // a new piece does
  EXPECT_TRUE(feed(header_of(1, 192, 64, 128)).whole);
  EXPECT_EQ(drop_of(header_of(1, 192, 64, 128)), DropReason::kLate);
  EXPECT_EQ(context->request.pieces.size(), 3u);
  finish(*context);
}

TEST_F(Reassembly, DropsPiecesWithChangedGeometryOrWrongLength) {
  feed(header_of(1, 192, 64, 0));
  const auto changed = [&](auto change) {
    wire::Header header = header_of(1, 192, 64, 64);
    change(header);
    return drop_of(header);
  };
  using wire::Header;
  EXPECT_EQ(changed([](Header& h) { h.total_bytes = 256; }), DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.fragment_bytes = 128; }), DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.payload_kind = wire::PayloadKind::kText; }),
            DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.result_kind = wire::ResultKind::kLogits; }),
            DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.flags = wire::kFlagSegments; }),
            DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.offset = 32; }), DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.offset = 192; }), DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.offset = 0xffffffc0; }), DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.payload_bytes = 60; }), DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.payload_bytes = 128; }), DropReason::kGeometryChanged);
  EXPECT_EQ(changed([](Header& h) { h.flags = wire::kFlagRetry; }), DropReason::kNone);
  Context* context = find(1);
  EXPECT_EQ(context->num_arrived, 2u);
  finish(*context);
}

TEST_F(Reassembly, ImpossibleFirstPiecesTakeNoContext) {
  const auto changed = [&](auto change) {
    wire::Header header = header_of(1, 192, 64, 64);
    change(header);
    return drop_of(header);
  };
  using wire::Header;
  EXPECT_EQ(changed([](Header& h) { h.fragment_bytes = 0; }), DropReason::kWireBadGeometry);
  EXPECT_EQ(changed([](Header& h) { h.total_bytes = UINT32_MAX; }), DropReason::kWireBadGeometry);
  EXPECT_EQ(changed([](Header& h) { h.offset = 192; }), DropReason::kWireBadGeometry);
  EXPECT_EQ(changed([](Header& h) { h.payload_bytes = 1; }), DropReason::kWireBadGeometry);
  EXPECT_EQ(reassembler_->num_contexts(), 0u);
}

TEST_F(Reassembly, LimitsOfContexts) {
  make({.max_contexts = 4, .tenant_max_contexts = 1});
  EXPECT_EQ(drop_of(header_of(1, 128, 64, 0), 1), DropReason::kNone);
  EXPECT_EQ(drop_of(header_of(2, 128, 64, 0), 1), DropReason::kTenantContextsFull);
  for (uint64_t id = 2; id <= 4; ++id)
    EXPECT_EQ(drop_of(header_of(id, 128, 64, 0), id), DropReason::kNone);
  EXPECT_EQ(drop_of(header_of(5, 128, 64, 0), 5), DropReason::kContextsFull);
  EXPECT_EQ(reassembler_->tenant_contexts(1), 1u);
  finish(*find(1));
  EXPECT_EQ(drop_of(header_of(5, 128, 64, 0), 5), DropReason::kNone);
}

// Any number of half-sent requests of two tenants leave contexts, buffers and piece tables for a
// third.
TEST_F(Reassembly, GreedyTenantsLeaveRoomForOthers) {
  constexpr uint64_t kBuffer = 2048 + RTE_PKTMBUF_HEADROOM;
  struct Case {
    ReassemblyLimits limits;
    uint32_t total_bytes;
    DropReason reason;
  };
  const Case cases[] = {
      {{.max_contexts = 30, .tenant_max_contexts = 30}, 128, DropReason::kTenantContextsFull},
      {{.max_held_bytes = 30 * kBuffer, .tenant_max_held_bytes = 30 * kBuffer},
       128,
       DropReason::kTenantHeldBytesFull},
      {{.piece_slots = 64 * 32}, 64 * 64, DropReason::kTenantPiecesFull},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(drop_reason_name(each.reason));
    make(each.limits);
    uint64_t id = 0;
    for (int turn = 0; turn < 40; ++turn) {
      for (uint32_t tenant : {1u, 2u}) {
        const DropReason dropped = drop_of(header_of(++id, each.total_bytes, 64, 0), tenant);
        EXPECT_TRUE(dropped == DropReason::kNone || dropped == each.reason);
      }
    }
    EXPECT_EQ(drop_of(header_of(++id, each.total_bytes, 64, 0), 1), each.reason);
    EXPECT_NEAR(reassembler_->tenant_contexts(1), 10, 1);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(drop_of(header_of(++id, each.total_bytes, 64, 0), 3), DropReason::kNone);
  }
}

TEST_F(Reassembly, LimitsOfHeldBytesCountWholeBuffers) {
  constexpr uint64_t kBuffer = 2048 + RTE_PKTMBUF_HEADROOM;
  make({.max_held_bytes = 6 * kBuffer, .tenant_max_held_bytes = 3 * kBuffer});
  for (uint32_t i = 0; i < 3; ++i) feed(header_of(1, 64 * 9, 64, i * 64), 1);
  EXPECT_EQ(reassembler_->tenant_held_bytes(1), 3 * kBuffer);
  EXPECT_EQ(drop_of(header_of(1, 64 * 9, 64, 256), 1), DropReason::kTenantHeldBytesFull);
  EXPECT_EQ(drop_of(header_of(2, 64, 64, 0), 1), DropReason::kTenantHeldBytesFull);
  for (uint32_t tenant = 2; tenant <= 4; ++tenant)
    EXPECT_EQ(drop_of(header_of(1 + tenant, 128, 64, 0), tenant), DropReason::kNone);
  EXPECT_EQ(drop_of(header_of(3, 128, 64, 64), 2), DropReason::kHeldBytesFull);
  EXPECT_EQ(drop_of(header_of(9, 64, 64, 0), 5), DropReason::kHeldBytesFull);
  EXPECT_EQ(reassembler_->held_bytes(), 6 * kBuffer);
  finish(*find(1));
  EXPECT_EQ(reassembler_->held_bytes(), 3 * kBuffer);
}

TEST_F(Reassembly, PieceTablesAreBounded) {
  make({.max_pieces_per_request = 100, .piece_slots = 192});  // 256: a tenant may take half
  EXPECT_EQ(drop_of(header_of(1, 64 * 101, 64, 0)), DropReason::kTooManyPieces);
  EXPECT_EQ(drop_of(header_of(1, wire::kMaxTotalBytes, 64, 0)), DropReason::kTooManyPieces);
  EXPECT_EQ(drop_of(header_of(1, 64 * 64, 64, 0)), DropReason::kNone);
  EXPECT_EQ(drop_of(header_of(2, 64 * 64, 64, 0)), DropReason::kNone);
  EXPECT_EQ(drop_of(header_of(3, 64 * 5, 64, 0)), DropReason::kTenantPiecesFull);
  EXPECT_EQ(drop_of(header_of(5, 64 * 5, 64, 0), 1), DropReason::kNone);
  EXPECT_EQ(drop_of(header_of(6, 64 * 5, 64, 0), 2), DropReason::kNone);
  EXPECT_EQ(drop_of(header_of(7, 64 * 5, 64, 0), 3), DropReason::kPiecesFull);
  EXPECT_EQ(drop_of(header_of(4, 64 * 4, 64, 0)), DropReason::kNone);  // fits in the context
  EXPECT_EQ(reassembler_->num_contexts(), 5u);
}

TEST_F(Reassembly, LargeRequestArrivesInReverseOrder) {
  constexpr uint32_t kPieces = 1500;
  for (uint32_t i = kPieces; i-- > 0;)
    ASSERT_EQ(feed(header_of(1, kPieces * 64 - 3, 64, i * 64)).whole, i == 0);
  Context* context = find(1);
  expect_intact(context->request);
  EXPECT_EQ(reassembler_->release(*context), kPieces);
  reassembler_->flush();
}

TEST_F(Reassembly, MisalignedPayloadsAreMovedAndCounted) {
  for (size_t skew = 1; skew < 4; ++skew) {
    const auto added = feed(header_of(skew, 1000, 1384, 0), 0, skew);
    expect_intact(added.context->request);
    EXPECT_EQ(reassembler_->realigned(), skew);
    finish(*added.context);
  }
}

TEST_F(Reassembly, TimeoutsAndDeadlines) {
  make({.timeout_ns = 500 * kMs});
  feed(header_of(1, 128, 64, 0));
  feed(header_of(2, 128, 64, 0), 0, 0, now_ns_ + 20 * kMs);
  feed(header_of(3, 64, 64, 0), 0, 0, now_ns_ + 20 * kMs);  // whole
  feed(header_of(4, 128, 64, 0), 0, 0, now_ns_ + 900 * kMs);
  now_ns_ += 19 * kMs;
  EXPECT_TRUE(sweep().empty());
  now_ns_ += kMs + Reassembler::kTickNs;
  auto due = sweep();
  ASSERT_EQ(due.size(), 2u);
  std::ranges::sort(due, {}, [](const auto& one) { return one.context->request.request_id; });
  for (const auto& one : due) EXPECT_EQ(one.why, Reassembler::Due::kDeadline);
  EXPECT_EQ(due[0].context->request.request_id, 2u);
  EXPECT_EQ(reassembler_->release(*due[0].context), 1u);
  EXPECT_EQ(due[1].context->request.request_id, 3u);
  EXPECT_EQ(due[1].context->state, ContextState::kExecuting);
  feed(header_of(1, 128, 64, 64));  // in time
  now_ns_ += 472 * kMs;
  EXPECT_TRUE(sweep().empty());
  now_ns_ += 12 * kMs;
  due = sweep();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].why, Reassembler::Due::kTimeout);
  EXPECT_EQ(due[0].context->request.request_id, 4u);
  reassembler_->release(*due[0].context);
  EXPECT_EQ(reassembler_->num_contexts(), 2u);
}

// A slow or lossy link needs more than the timeout for many pieces. The timeout once began with the
// first piece: all images of 150 pieces were refused over a link that lost 30 %.
TEST_F(Reassembly, PiecesPostponeTheTimeoutTenTimes) {
  for (const uint64_t stall_ms : {0u, 20u}) {
    make({.timeout_ns = 500 * kMs, .stall_ns = stall_ms * kMs});
    feed(header_of(1, 64 * 100, 64, 0));
    uint64_t timed_out_ms = 0;
    for (uint64_t ms = 1; ms < 6000 && timed_out_ms == 0; ++ms) {
      now_ns_ += kMs;
      if (ms % 400 == 0) feed(header_of(1, 64 * 100, 64, 64 * (ms / 400)));
      for (const auto& due : sweep()) {
        if (due.why == Reassembler::Due::kStalled) continue;
        EXPECT_EQ(due.why, Reassembler::Due::kTimeout);
        timed_out_ms = ms;
        reassembler_->release(*due.context);
      }
    }
    EXPECT_NEAR(static_cast<double>(timed_out_ms), 5000, 12);
  }
}

TEST_F(Reassembly, SilenceAfterLatePiecesTimesOut) {
  make({.timeout_ns = 500 * kMs});
  feed(header_of(1, 64 * 10, 64, 0));
  for (uint32_t piece = 1; piece <= 3; ++piece) {
    now_ns_ += 400 * kMs;
    EXPECT_TRUE(sweep().empty());
    feed(header_of(1, 64 * 10, 64, 64 * piece));
    feed(header_of(1, 64 * 10, 64, 64 * piece));  // a repeat postpones nothing
  }
  now_ns_ += 490 * kMs;
  feed(header_of(1, 64 * 10, 64, 64));
  EXPECT_TRUE(sweep().empty());
  now_ns_ += 20 * kMs;
  const auto due = sweep();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].why, Reassembler::Due::kTimeout);
  reassembler_->release(*due[0].context);
}

// With gaps that doubled, a request had four chances only, however many of its pieces were lost
// again: 71 % of images of 150 pieces were refused at a loss of 30 %.
TEST_F(Reassembly, StallsAreReportedUntilPiecesArriveAndDelayedByThem) {
  make({.timeout_ns = 500 * kMs, .stall_ns = 20 * kMs});
  feed(header_of(1, 64 * 10, 64, 0));
  now_ns_ += 15 * kMs;
  feed(header_of(1, 64 * 10, 64, 64));
  std::vector<uint64_t> stalls_ms;
  // A piece at 200 ms makes the next gap a short one again.
  constexpr uint64_t kPieceMs = 200;
  bool timed_out = false;
  for (uint64_t ms = 15; ms < 800 && !timed_out; ++ms, now_ns_ += kMs) {
    if (ms == kPieceMs) feed(header_of(1, 64 * 10, 64, 128));
    for (const auto& due : sweep()) {
      if (due.why == Reassembler::Due::kStalled) {
        stalls_ms.push_back(ms);
      } else {
        EXPECT_EQ(due.why, Reassembler::Due::kTimeout);
        reassembler_->release(*due.context);
        timed_out = true;
      }
    }
  }
  EXPECT_TRUE(timed_out);
  ASSERT_GE(stalls_ms.size(), 16u);
  ASSERT_LE(stalls_ms.size(), 19u);
  EXPECT_NEAR(static_cast<double>(stalls_ms[0]), 35, 3);  // 20 ms after the second piece
  for (size_t i = 1; i < stalls_ms.size(); ++i) {
    const bool piece_between = stalls_ms[i - 1] < kPieceMs && kPieceMs <= stalls_ms[i];
    const double from = static_cast<double>(piece_between ? kPieceMs : stalls_ms[i - 1]);
    EXPECT_NEAR(static_cast<double>(stalls_ms[i]) - from, piece_between ? 20 : 40, 4) << i;
  }
}

TEST_F(Reassembly, MissingRanges) {
  const auto ranges_of = [&](uint64_t id, size_t room = wire::kMaxRanges) {
    std::vector<wire::Range> ranges(room);
    ranges.resize(reassembler_->missing_ranges(*find(id), ranges));
    std::string text;
    for (const wire::Range& range : ranges)
      text += std::to_string(range.offset) + "+" + std::to_string(range.bytes) + " ";
    return text;
  };
  feed(header_of(1, 200, 64, 64));
  EXPECT_EQ(ranges_of(1), "0+64 128+72 ");
  constexpr uint32_t kTotal = 64 * 200 - 10;
  for (uint32_t i : {3u, 63u, 64u, 65u, 128u, 190u}) feed(header_of(2, kTotal, 64, i * 64));
  EXPECT_EQ(ranges_of(2), "0+192 256+3776 4224+3968 8256+3904 12224+566 ");
  EXPECT_EQ(ranges_of(2, 2), "0+192 256+3776 ");
  for (uint32_t i = 0; i < 200; i += 2) feed(header_of(3, kTotal, 64, i * 64));
  std::vector<wire::Range> many(wire::kMaxRanges);
  EXPECT_EQ(reassembler_->missing_ranges(*find(3), many), wire::kMaxRanges);
  EXPECT_EQ(many.back().offset, 64u * 127);
}

}  // namespace
}  // namespace itif::net::test
