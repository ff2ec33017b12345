// Feeds a Reassembler as the worker does. Each payload byte follows from request id and offset.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "net/reassembly.h"
#include "test_eal.h"

namespace itif::net::test {

constexpr uint64_t kMs = 1'000'000;

inline std::byte payload_byte(uint64_t request_id, uint32_t offset) {
  return static_cast<std::byte>(request_id * 31 + offset * 7 + (offset >> 8));
}

inline wire::Header header_of(uint64_t id, uint32_t total, uint16_t fragment, uint32_t offset) {
  wire::Header header;
  header.tenant_id = 5;
  header.session = 77;
  header.request_id = id;
  header.total_bytes = total;
  header.fragment_bytes = fragment;
  header.offset = offset;
  header.payload_bytes =
      static_cast<uint16_t>(std::min<uint64_t>(fragment, offset < total ? total - offset : 0));
  header.payload_kind = wire::PayloadKind::kTokensU16;
  return header;
}

class Reassembly : public EalTest {
 protected:
  static constexpr uint64_t kSeed = 99;

  void make(ReassemblyLimits limits = {}) {
    limits.max_contexts = std::min(limits.max_contexts, 64u);
    limits.max_tenants = 8;
    reassembler_ = std::make_unique<Reassembler>(limits);
  }
  void SetUp() override { make(); }
  void TearDown() override {
    reassembler_.reset();
    EalTest::TearDown();
  }

  // Acts as the worker: finds or starts the request's context, and frees a datagram that is not
  // held.
  Reassembler::Added feed(const wire::Header& header, uint32_t tenant = 0, size_t skew = 0,
                          uint64_t deadline_ns = 0) {
    net::test::Frame frame(92 + skew, std::byte{0xaa});
    for (uint32_t i = 0; i < header.payload_bytes; ++i)
      frame.push_back(payload_byte(header.request_id, header.offset + i));
    rte_mbuf* mbuf = mbuf_of(frame);
    Arrival arrival;
    arrival.key = hashed(message_key(header), kSeed);
    arrival.header = &header;
    arrival.mbuf = mbuf;
    arrival.payload =
        std::span(rte_pktmbuf_mtod(mbuf, const std::byte*), frame.size()).subspan(92 + skew);
    arrival.peer = &peer_;
    arrival.now_ns = now_ns_;
    Context* context = reassembler_->find(arrival.key);
    const Reassembler::Added added =
        context != nullptr
            ? reassembler_->add(*context, arrival)
            : reassembler_->start(arrival, {.tenant_index = tenant, .deadline_ns = deadline_ns});
    if (added.outcome.kind != Outcome::kHeld) rte_pktmbuf_free(mbuf);
    return added;
  }
  Context* find(uint64_t request_id) {
    return reassembler_->find(hashed({5, 77, request_id}, kSeed));
  }
  DropReason drop_of(const wire::Header& header, uint32_t tenant = 0) {
    const Reassembler::Added added = feed(header, tenant);
    return added.outcome.kind == Outcome::kDropped ? added.outcome.reason : DropReason::kNone;
  }
  std::vector<Reassembler::Due> sweep() {
    std::vector<Reassembler::Due> due(64);
    due.resize(reassembler_->sweep(now_ns_, due));
    return due;
  }
  static void expect_intact(const request::Request& request) {
    uint32_t offset = 0;
    for (const request::Piece& piece : request.pieces) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(piece.data) % 4, 0u);
      for (uint32_t i = 0; i < piece.bytes; ++i)
        ASSERT_EQ(piece.data[i], payload_byte(request.request_id, offset + i));
      offset += piece.bytes;
    }
    EXPECT_EQ(offset, request.payload_bytes);
  }
  void finish(Context& context) {
    reassembler_->release(context);
    reassembler_->flush();
  }

  std::unique_ptr<Reassembler> reassembler_;
  Endpoint peer_;
  uint64_t now_ns_ = 1'000'000'000;
};

}  // namespace itif::net::test
