// The reassembler against a simple model: for each request a vector of bytes and a map of the
// pieces that have arrived. Each piece gets the same verdict from both, and complete requests have
// the same bytes.
//
//   input = { u8: the operation; its numbers }*       (see Run::step)
#include <rte_mbuf.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "base/check.h"
#include "base/share.h"
#include "input.h"
#include "net/mempool.h"
#include "net/reassembly.h"
#include "ring_port.h"

namespace {

using namespace itif;
using net::DropReason;

constexpr uint64_t kBufferBytes = 2048 + RTE_PKTMBUF_HEADROOM;  // of an mbuf
constexpr uint32_t kTenants = 3;
constexpr net::ReassemblyLimits kLimits = {.max_contexts = 6,
                                           .max_held_bytes = 60 * kBufferBytes,
                                           .tenant_max_contexts = 4,
                                           .tenant_max_held_bytes = 50 * kBufferBytes,
                                           .max_tenants = kTenants,
                                           .max_pieces_per_request = 100,
                                           .piece_slots = 512,
                                           .timeout_ns = 500'000'000,
                                           .stall_ns = 30'000'000};

rte_mempool* pool() {
  static const net::Mempool pool = [] {
    fuzz::start_eal();
    auto made = net::create_mempool({"fuzz", 255, 2048, -1});
    CHECK(made.has_value());
    return std::move(*made);
  }();
  return pool.get();
}

struct Model {
  wire::Header header;  // of the first piece
  uint32_t tenant = 0;
  uint64_t arrival_ns = 0, last_piece_ns = 0, deadline_ns = 0;
  uint32_t num_pieces = 0;
  std::map<uint32_t, uint32_t> arrived;  // by offset: bytes
  std::vector<std::byte> bytes;
  uint64_t held = 0;  // mbufs
  bool is_whole = false, has_packets = true;
  net::Context* context = nullptr;

  uint32_t slots() const {
    return num_pieces > net::Context::kInlinePieces && has_packets
               ? net::PieceArena::block_pieces(num_pieces)
               : 0;
  }
};

class Run {
 public:
  explicit Run(fuzz::Input& input) : input_(input) {}

  void step() {
    const uint8_t what = input_.u8();
    const uint64_t id = what >> 3 & 7;
    switch (what & 7) {
      case 0: piece(id, any_geometry(id)); return;
      case 1: piece(id, next_missing(id, false)); return;
      case 2: piece(id, next_missing(id, true)); return;
      case 3: piece(id, same_request(id)); return;
      case 4: return all_missing(id);
      case 5: now_ns_ += uint64_t{1} << (input_.u8() % 32); return sweep();
      case 6: return release(id, true);
      case 7: return release(id, false);
    }
  }

  void check_sums() {
    uint64_t held = 0;
    for (const auto& [id, model] : models_) {
      held += model.held;
      CHECK(reassembler_.find(key(id)) == model.context);
    }
    CHECK(reassembler_.num_contexts() == models_.size());
    CHECK(reassembler_.held_pieces() == held);
    CHECK(reassembler_.held_bytes() == held * kBufferBytes);
    CHECK(rte_mempool_in_use_count(pool()) == held);
  }

  void finish() {
    for (; !models_.empty(); models_.erase(models_.begin()))
      reassembler_.release(*models_.begin()->second.context);
    reassembler_.flush();
    check_sums();
  }

 private:
  static net::HashedKey key(uint64_t id) { return net::hashed({5, 77, id}, 99); }

  // A first piece, or one that contradicts the others.
  wire::Header any_geometry(uint64_t id) {
    wire::Header header;
    header.tenant_id = 5;
    header.session = 77;
    header.request_id = id;
    const uint8_t how = input_.u8();
    header.fragment_bytes = static_cast<uint16_t>(how & 1 ? input_.u16() : 64 + 4 * (how >> 6));
    header.total_bytes = how & 2   ? input_.u32()
                         : how & 4 ? input_.u16()
                                   : (how >> 3 & 7) * header.fragment_bytes + input_.u8();
    header.offset = how & 8 ? input_.u32() : input_.u8() * header.fragment_bytes;
    header.budget_us = how & 16 ? input_.u32() : 0;
    return with_payload(header);
  }

  static wire::Header with_payload(wire::Header header) {
    const uint32_t rest = header.total_bytes - std::min(header.total_bytes, header.offset);
    header.payload_bytes =
        static_cast<uint16_t>(std::min<uint32_t>({rest, header.fragment_bytes, 1500u}));
    return header;
  }

  wire::Header same_request(uint64_t id) {
    const auto found = models_.find(id);
    if (found == models_.end()) return any_geometry(id);
    wire::Header header = found->second.header;
    header.offset = input_.u8() * header.fragment_bytes;
    const uint8_t change = input_.u8();  // in the fields that all pieces share
    if (change & 1) header.flags ^= wire::kFlagRetry;
    if (change & 2) header.flags ^= wire::kFlagTruncate;
    if (change & 4) header.key_epoch ^= 1;
    if (change & 8) header.total_bytes ^= 1;
    if (change & 16) header.offset += 4;
    if (change & 32) header.auth = wire::Auth::kFull;
    return with_payload(header);
  }

  wire::Header next_missing(uint64_t id, bool from_the_end) {
    const auto found = models_.find(id);
    if (found == models_.end()) return any_geometry(id);
    wire::Header header = found->second.header;
    for (uint32_t i = 0; i < found->second.num_pieces; ++i) {
      header.offset = (from_the_end ? found->second.num_pieces - 1 - i : i) * header.fragment_bytes;
      if (!found->second.arrived.contains(header.offset)) break;
    }
    return with_payload(header);
  }

  void all_missing(uint64_t id) {
    for (int i = 0; i < 100 && models_.contains(id) && !models_[id].is_whole; ++i)
      if (!piece(id, next_missing(id, false))) return;
  }

  // Returns true if the piece was held.
  bool piece(uint64_t id, const wire::Header& header) {
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool());
    CHECK(mbuf != nullptr);  // the limits are lower
    const size_t skew = 92 + (header.offset + now_ns_) % 4;
    auto* at = reinterpret_cast<std::byte*>(
        rte_pktmbuf_append(mbuf, static_cast<uint16_t>(skew + header.payload_bytes)));
    salt_ = static_cast<uint8_t>(salt_ * 5 + 3);
    for (uint32_t i = 0; i < header.payload_bytes; ++i)
      at[skew + i] = static_cast<std::byte>(i * 7 + salt_);
    const std::vector<std::byte> payload(at + skew, at + skew + header.payload_bytes);
    net::Endpoint peer;
    const net::Arrival arrival{key(id), &header, {at + skew, payload.size()}, mbuf, &peer, now_ns_};

    const auto found = models_.find(id);
    net::Reassembler::Added added;
    DropReason expected;
    if (found == models_.end()) {
      net::Admission admission;
      admission.tenant_index = static_cast<uint32_t>(id % kTenants);
      if (header.budget_us != 0) admission.deadline_ns = now_ns_ + header.budget_us * 1000ull;
      expected = start_verdict(header, admission.tenant_index);
      added = reassembler_.start(arrival, admission);
      if (added.context != nullptr) {
        Model& model = models_[id];
        model.header = header;
        model.tenant = admission.tenant_index;
        model.arrival_ns = now_ns_;
        model.deadline_ns = admission.deadline_ns;
        model.num_pieces = num_pieces(header);
        model.bytes.resize(header.total_bytes);
        model.context = added.context;
      }
      // The buddy allocator may have enough slots, but no block of them.
      if (added.outcome.reason == DropReason::kPiecesFull && expected == DropReason::kNone &&
          num_pieces(header) > net::Context::kInlinePieces && slots_in_use(kTenants) > 0)
        expected = DropReason::kPiecesFull;
    } else {
      expected = add_verdict(found->second, header);
      added = reassembler_.add(*found->second.context, arrival);
    }
    CHECK(added.outcome.reason == expected);
    CHECK((added.outcome.kind == net::Outcome::kHeld) == (expected == DropReason::kNone));
    if (expected != DropReason::kNone) {
      CHECK(!added.whole);
      rte_pktmbuf_free(mbuf);
      return false;
    }
    models_[id].last_piece_ns = now_ns_;
    accept(models_[id], header, payload);
    CHECK(added.whole == models_[id].is_whole);
    return true;
  }

  static uint32_t num_pieces(const wire::Header& header) {
    const uint64_t fragment = header.fragment_bytes;
    return static_cast<uint32_t>(
        std::max<uint64_t>(1, (header.total_bytes + fragment - 1) / fragment));
  }

  static bool fits(const wire::Header& header) {
    const uint64_t rest =
        uint64_t{header.total_bytes} - std::min(header.total_bytes, header.offset);
    const bool is_in = header.offset == 0 || header.offset < header.total_bytes;
    return is_in && header.offset % header.fragment_bytes == 0 &&
           header.payload_bytes == std::min<uint64_t>(rest, header.fragment_bytes);
  }

  // `tenant` = kTenants: of all.
  uint64_t slots_in_use(uint32_t tenant) const {
    uint64_t slots = 0;
    for (const auto& [id, model] : models_)
      if (tenant == kTenants || model.tenant == tenant) slots += model.slots();
    return slots;
  }

  DropReason room_verdict(uint32_t tenant) const {
    uint64_t all = 0, own = 0;
    for (const auto& [id, model] : models_) {
      all += model.held;
      if (model.tenant == tenant) own += model.held;
    }
    if ((all + 1) * kBufferBytes > kLimits.max_held_bytes) return DropReason::kHeldBytesFull;
    if ((own + 1) * kBufferBytes > kLimits.tenant_max_held_bytes ||
        !within_share(own * kBufferBytes, kBufferBytes, all * kBufferBytes, kLimits.max_held_bytes))
      return DropReason::kTenantHeldBytesFull;
    return DropReason::kNone;
  }

  DropReason start_verdict(const wire::Header& header, uint32_t tenant) const {
    if (header.fragment_bytes == 0 || header.total_bytes > wire::kMaxTotalBytes)
      return DropReason::kWireBadGeometry;
    if (models_.size() == kLimits.max_contexts) return DropReason::kContextsFull;
    const auto own = static_cast<uint64_t>(
        std::ranges::count_if(models_, [&](const auto& m) { return m.second.tenant == tenant; }));
    if (own >= kLimits.tenant_max_contexts ||
        !within_share(own, 1, models_.size(), kLimits.max_contexts))
      return DropReason::kTenantContextsFull;
    if (const DropReason reason = room_verdict(tenant); reason != DropReason::kNone) return reason;
    if (!fits(header)) return DropReason::kWireBadGeometry;
    const uint32_t pieces = num_pieces(header);
    if (pieces <= net::Context::kInlinePieces) return DropReason::kNone;
    if (pieces > kLimits.max_pieces_per_request) return DropReason::kTooManyPieces;
    const uint64_t slots = net::PieceArena::block_pieces(pieces);
    const uint64_t used = slots_in_use(kTenants);
    if (slots > kLimits.piece_slots - used) return DropReason::kPiecesFull;
    return within_share(slots_in_use(tenant), slots, used, kLimits.piece_slots)
               ? DropReason::kNone
               : DropReason::kTenantPiecesFull;
  }

  DropReason add_verdict(const Model& model, const wire::Header& header) const {
    wire::Header same = header;  // but for the fields that may differ
    same.offset = model.header.offset;
    same.payload_bytes = model.header.payload_bytes;
    same.flags = static_cast<uint16_t>((header.flags & ~wire::kFlagRetry) |
                                       (model.header.flags & wire::kFlagRetry));
    if (std::memcmp(&same, &model.header, sizeof same) != 0 || !fits(header))
      return DropReason::kGeometryChanged;
    if (model.is_whole) return DropReason::kLate;
    if (model.arrived.contains(header.offset)) return DropReason::kDuplicate;
    return room_verdict(model.tenant);
  }

  void accept(Model& model, const wire::Header& header, const std::vector<std::byte>& payload) {
    std::copy(payload.begin(), payload.end(), model.bytes.begin() + header.offset);
    model.arrived[header.offset] = header.payload_bytes;
    ++model.held;
    model.is_whole = model.arrived.size() == model.num_pieces;
    CHECK((model.context->state == net::ContextState::kExecuting) == model.is_whole);
    if (model.is_whole) return check_whole(model);
    check_missing(model);
  }

  static void check_whole(const Model& model) {
    const request::Request& request = model.context->request;
    CHECK(request.payload_bytes == model.bytes.size());
    size_t at = 0;
    for (const request::Piece& piece : request.pieces) {
      CHECK(reinterpret_cast<uintptr_t>(piece.data) % 4 == 0);
      CHECK(piece.bytes <= model.bytes.size() - at);
      CHECK(std::memcmp(piece.data, model.bytes.data() + at, piece.bytes) == 0);
      at += piece.bytes;
    }
    CHECK(at == model.bytes.size());
  }

  void check_missing(const Model& model) {
    std::array<wire::Range, wire::kMaxRanges> ranges;
    const size_t count = reassembler_.missing_ranges(*model.context, ranges);
    size_t next = 0;
    for (uint32_t offset = 0; offset < model.header.total_bytes;) {
      if (const auto found = model.arrived.find(offset); found != model.arrived.end()) {
        offset += found->second;
        continue;
      }
      uint32_t end = offset;
      while (end < model.header.total_bytes && !model.arrived.contains(end))
        end = std::min(model.header.total_bytes, end + model.header.fragment_bytes);
      if (next == ranges.size()) break;
      CHECK(next < count);
      CHECK(ranges[next].offset == offset && ranges[next].bytes == end - offset);
      ++next;
      offset = end;
    }
    CHECK(next == count);
  }

  void sweep() {
    std::array<net::Reassembler::Due, 3> due;
    size_t count;
    do {
      count = reassembler_.sweep(now_ns_, due);
      for (size_t i = 0; i < count; ++i) on_due(due[i]);
    } while (count == due.size());
    for (const auto& [id, model] : models_) {
      const bool is_overdue = timeout_at(model) + net::Reassembler::kTickNs < now_ns_;
      CHECK(model.is_whole || !is_overdue);
    }
  }

  static uint64_t timeout_at(const Model& model) {
    return std::min(model.last_piece_ns + kLimits.timeout_ns,
                    model.arrival_ns + 10 * kLimits.timeout_ns);
  }

  void on_due(const net::Reassembler::Due& due) {
    const auto found = models_.find(due.context->request.request_id);
    CHECK(found != models_.end() && found->second.context == due.context);
    const Model& model = found->second;
    using Due = net::Reassembler::Due;
    if (due.why == Due::kDeadline) CHECK(model.deadline_ns != 0 && model.deadline_ns <= now_ns_);
    if (due.why == Due::kTimeout) CHECK(timeout_at(model) <= now_ns_);
    if (due.why == Due::kStalled) CHECK(model.arrival_ns + kLimits.stall_ns <= now_ns_);
    if (model.is_whole) {
      CHECK(due.why == Due::kDeadline);
      return;
    }
    if (due.why == Due::kStalled) return check_missing(model);
    CHECK(reassembler_.release(*due.context) == model.held);
    reassembler_.flush();
    models_.erase(found);
  }

  // Ends a request, or only frees its packets.
  void release(uint64_t id, bool all) {
    const auto found = models_.find(id);
    if (found == models_.end()) return;
    Model& model = found->second;
    if (all) {
      CHECK(reassembler_.release(*model.context) == model.held);
      models_.erase(found);
    } else if (model.is_whole) {
      CHECK(reassembler_.release_pieces(*model.context) == model.held);
      model.held = 0;
      model.has_packets = false;
    }
    reassembler_.flush();
  }

  fuzz::Input& input_;
  net::Reassembler reassembler_{kLimits};
  std::map<uint64_t, Model> models_;
  uint64_t now_ns_ = 1'000'000'000;
  uint8_t salt_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  pool();
  fuzz::Input input(data, size);
  Run run(input);
  while (!input.empty()) {
    run.step();
    run.check_sums();
  }
  run.finish();
  return 0;
}
