// The whole ingest stage: a worker, with datagrams of several clients and tenants in any order, on
// a virtual clock. A part of the datagrams has valid tags, tokens and sequence numbers. Checks
// after each input: no packet buffer leaked; every frame is counted once; a datagram is accepted
// once; a reply to an unproven address is no longer than its datagram; contents arrive unchanged.
//
//   input = u8: the worker; { u8: the operation, then its bytes }*     (see Run::step)
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "ingest_clients.h"
#include "ingest_stage.h"
#include "input.h"
#include "pipeline/figures.h"
#include "pipeline/worker.h"
#include "wire/geometry.h"
#include "wire/ranges.h"

namespace {

using namespace itif;
using fuzz::Clients;
using fuzz::IngestStage;
using fuzz::Input;
using wire::Auth;
using wire::Type;

class Run {
 public:
  Run(IngestStage& stage, Input& input)
      : stage_(stage), input_(input), worker_(*stage.workers[input.u8() & 1]) {
    stage_.clients.clear();
    before_ = pipeline::worker_figures(worker_);
    for (uint32_t i = 0; i < kTenants; ++i) {
      tenant::Tenant& tenant = tenants_[i];
      tenant.id = i + 1;
      tenant.index = i;
      tenant.auth = static_cast<uint8_t>(i % 4);
      rotate(tenant);
      tenant.max_payload_bytes = 16384;
      tenant.payload_kinds = i < 4 ? 0x7f : 1u << 1;
      tenant.lease = leases_[i] = std::make_shared<tenant::Lease>(stage_.workers.size());
    }
    stage_.shared.groups.set(0, &stage_.group.inbox());
    publish();
  }

  void step() {
    switch (input_.u8() & 15) {
      case 0: return send_request();
      case 1: return send_whole_request();
      case 2: return poll();
      case 3: return advance(uint64_t{1} << (input_.u8() % 38));
      case 4: {
        stage_.group.take();
        const uint8_t which = input_.u8();
        const auto status = static_cast<wire::StatusCode>(input_.u8() % 32);
        const uint16_t bytes = input_.u16();
        const bool is_status = static_cast<uint16_t>(status) < wire::kNumStatusCodes;
        return stage_.group.end(worker_.returns(), which,
                                is_status ? status : wire::StatusCode::kOk, bytes % 8192);
      }
      case 5:
        stage_.group.take();
        return stage_.group.return_packets(worker_.returns(), input_.u8());
      case 6: return send_other(Type::kAck);
      case 7: return send_resend();
      case 8: return send_unverified(Type::kHello);
      case 9: return send_unverified(Type::kPing);
      case 10: return repeat();
      case 11: return send_any_header();
      case 12: return send_bytes();
      case 13: stage_.clients.send_frame(input_.bytes(input_.u16() % 1600)); return poll();
      case 14: return change_tenants();
      case 15:
        if (const uint8_t how = input_.u8(); how & 1)
          stage_.group.set_busy_until(stage_.clock.now_ns() + (uint64_t{how} << 20));
        else
          stage_.group.set_busy_until(0);
        return;
    }
  }

  // Lets everything end, and checks that nothing is left.
  void finish() {
    stage_.group.set_busy_until(0);
    intake_ = tenant::Intake::kAccept;
    publish();
    for (poll(); !stage_.group.empty(); poll())
      stage_.group.end(worker_.returns(), 0, wire::StatusCode::kOk, 100);
    // Past every timeout. The next input begins with the same phase of the tokens' period.
    constexpr uint64_t kRestNs = IngestStage::kRestNs;
    advance(2 * kRestNs - stage_.clock.now_ns() % kRestNs);
    poll();  // sends the answers of the sweep
    const pipeline::WorkerFigures after = pipeline::worker_figures(worker_);
    CHECK(after.held == 0 && after.contexts == 0 && after.held_bytes == 0);
    CHECK(after.received - before_.received == stage_.clients.frames());
    CHECK(after.received == after.forwarded + after.total_repeated() + after.total_dropped());
    CHECK(after.send_dropped == 0);
    for (const tenant::Tenant& tenant : tenants_) {
      const pipeline::TenantFigures figures =
          pipeline::tenant_figures({stage_.workers.data(), stage_.workers.size()}, tenant.index);
      CHECK(figures.held == 0);
      CHECK(figures.received ==
            figures.forwarded + figures.total_repeated() + figures.total_dropped());
    }
    for (const auto& lease : leases_) CHECK(lease->num_in_flight() == 0);
    CHECK(stage_.port.buffers_in_use() == 0);
    stage_.shared.tenants.go_idle(worker_.options().id);
    stage_.shared.tenants.reclaim();
  }

 private:
  static constexpr uint32_t kTenants = 5;

  void poll() {
    size_t done;
    int polls = 0;
    do {
      done = worker_.poll();
      stage_.clients.check_answers();
      CHECK(++polls < 1000);
    } while (done > 0);
    stage_.group.take();
  }

  // Time passes between polls, so that a datagram is handled in the token period of its sending.
  void advance(uint64_t ns) {
    poll();
    stage_.clock.advance_ns(ns);
    poll();
  }

  uint64_t period() const { return stage_.clock.now_ns() / pipeline::kTokenPeriodNs; }

  void rotate(tenant::Tenant& tenant) {
    tenant.previous_key = tenant.key;
    tenant.has_previous_key = tenant.key.epoch != 0;
    ++tenant.key.epoch;
    tenant.key.bytes = {static_cast<std::byte>(tenant.id),
                        static_cast<std::byte>(tenant.key.epoch)};
  }

  void publish() {
    std::vector<tenant::Tenant> tenants;
    for (const tenant::Tenant& tenant : tenants_) {
      stage_.clients.learn_key(tenant.id, tenant.key, static_cast<Auth>(tenant.auth));
      if ((removed_ >> tenant.index & 1) == 0) tenants.push_back(tenant);
    }
    stage_.shared.tenants.publish(
        std::make_unique<tenant::Snapshot>(std::move(tenants), ++stage_.generation, intake_));
  }

  void change_tenants() {
    poll();
    const uint8_t how = input_.u8();
    const uint8_t value = input_.u8();
    tenant::Tenant& tenant = tenants_[(how >> 4) % kTenants];
    switch (how & 7) {
      case 0: rotate(tenant); break;
      case 1: intake_ = static_cast<tenant::Intake>(value % 3); break;
      case 2: tenant.state = static_cast<tenant::State>(value % 3); break;
      case 3: removed_ ^= 1u << tenant.index; break;
      case 4: tenant.quota_rps = value; break;
      case 5: tenant.auth = value % 4; break;
      case 6: tenant.group = value % 2; break;
      case 7:
        tenant.canary = tenant;
        tenant.canary->version = 2;
        tenant.canary_percent = value % 101;
        break;
    }
    publish();
  }

  struct Sender {
    size_t client;
    const tenant::Tenant* tenant;
    const wire::Key* key;
    wire::Header header;
  };

  // Chooses who sends, and writes the fields that verification checks; mostly right ones.
  Sender sender(Type type) {
    const uint8_t who = input_.u8();
    const uint8_t how = input_.u8();
    Sender sender{};
    sender.client = who & 3;
    sender.tenant = &tenants_[(who >> 2 & 7) % kTenants];
    sender.key = &sender.tenant->key.bytes;
    wire::Header& header = sender.header;
    header.type = type;
    header.tenant_id = (who >> 2 & 7) == 7 ? 99 : sender.tenant->id;
    header.session = 100 + (who >> 5 & 1);
    header.auth = static_cast<Auth>((how & 3) == 0 ? sender.tenant->auth : how & 3);
    header.request_id = 1 + (how >> 2 & 7);
    header.key_epoch = sender.tenant->key.epoch;
    if ((how & 0x80) != 0 && sender.tenant->has_previous_key) {
      header.key_epoch = sender.tenant->previous_key.epoch;
      sender.key = &sender.tenant->previous_key.bytes;
    }
    if (header.auth == Auth::kNone) header.key_epoch = 0;
    uint64_t& next = next_sequence_[sender.client];
    switch (how >> 5 & 3) {
      case 2: header.sequence = next - 1; break;
      case 3: header.sequence = next - input_.u16(); break;
      default: header.sequence = next++;
    }
    switch (who >> 6) {
      case 2: header.token = token(sender, period() - 1); break;
      case 3: header.token = token(sender, period() + input_.u8()); break;
      default: header.token = token(sender, period());
    }
    return sender;
  }

  uint64_t token(const Sender& sender, uint64_t period) const {
    return stage_.clients.token(sender.client, sender.header.session, period);
  }

  void send(const Sender& sender, std::span<const std::byte> payload) {
    std::vector<std::byte> datagram(wire::header_size(sender.header.auth) + payload.size());
    if (wire::build(sender.header, payload, *sender.key, datagram) != datagram.size()) return;
    stage_.clients.send(sender.client, std::move(datagram), period());
    if (++unpolled_ % 64 == 0) poll();
  }

  // Writes the fields of a request.
  void describe(wire::Header& header) {
    const uint8_t size = input_.u8();
    const uint8_t kind = input_.u8();
    header.fragment_bytes = static_cast<uint16_t>(64 + 4 * (size & 3) + (size & 0x80 ? 256 : 0));
    const uint32_t pieces = size >> 2 & 31;
    header.total_bytes = pieces == 31 ? input_.u32() % (wire::kMaxTotalBytes + 2)
                                      : pieces * header.fragment_bytes + input_.u8();
    header.payload_kind = static_cast<wire::PayloadKind>(kind & 7);
    if ((kind & 8) != 0) header.flags |= wire::kFlagNoCache;
    if ((kind & 16) != 0) header.flags |= wire::kFlagModelVersion;
    if ((kind & 32) != 0) header.flags |= input_.u16();
    if ((kind & 64) != 0) header.budget_us = 1u << (input_.u8() % 32);
    if ((kind & 128) != 0) header.result_kind = static_cast<wire::ResultKind>(input_.u8() % 10);
  }

  void send_piece(Sender& sender, uint32_t piece) {
    wire::Header& header = sender.header;
    header.offset = piece * header.fragment_bytes;
    const uint32_t rest = header.total_bytes - std::min(header.total_bytes, header.offset);
    std::vector<std::byte> payload(std::min<uint32_t>(rest, header.fragment_bytes));
    for (uint32_t i = 0; i < payload.size(); ++i)
      payload[i] = fuzz::payload_byte(header.request_id, header.offset + i);
    send(sender, payload);
  }

  void send_request() {
    Sender from = sender(Type::kRequest);
    describe(from.header);
    const uint8_t piece = input_.u8();
    send_piece(from, piece);
  }

  // All pieces, in the order that the input says: forwards or backwards, and perhaps without one.
  void send_whole_request() {
    Sender from = sender(Type::kRequest);
    describe(from.header);
    const uint8_t order = input_.u8();
    const uint32_t count = std::min<uint32_t>(
        wire::num_pieces(from.header.total_bytes, from.header.fragment_bytes), 100);
    for (uint32_t i = 0; i < count; ++i) {
      if ((order & 2) != 0 && i == (order >> 2) % count) continue;
      if (i > 0) from.header.sequence = next_sequence_[from.client]++;
      send_piece(from, (order & 1) != 0 ? count - 1 - i : i);
    }
  }

  void send_other(Type type) {
    const Sender from = sender(type);
    send(from, {});
  }

  void send_unverified(Type type) {
    Sender from = sender(type);
    from.header.auth = Auth::kNone;
    from.header.key_epoch = 0;
    from.header.sequence = from.header.token = 0;
    send(from, type == Type::kPing ? input_.bytes(input_.u8()) : std::span<const std::byte>{});
  }

  void send_resend() {
    Sender from = sender(Type::kResend);
    from.header.flags = wire::kFlagOfResponse;
    const wire::Header* response = stage_.clients.response(from.header);
    const uint8_t count = input_.u8();
    from.header.total_bytes = response != nullptr ? response->total_bytes : input_.u16();
    from.header.fragment_bytes = response != nullptr ? response->fragment_bytes : 64;
    std::vector<wire::Range> ranges(count % 5);
    for (wire::Range& range : ranges) range = {input_.u16(), input_.u16()};
    if ((count & 0x80) != 0) ranges = {{0, from.header.total_bytes}};
    send(from, std::as_bytes(std::span(ranges)));
  }

  // A captured datagram, perhaps with one bit changed, and perhaps from another address.
  void repeat() {
    const auto& sent = stage_.clients.sent();
    const uint8_t which = input_.u8();
    const uint8_t client = input_.u8();
    const uint16_t bit = input_.u16();
    if (sent.empty()) return;
    std::vector<std::byte> datagram = sent[which % sent.size()];
    if (bit != 0 && bit / 8 < datagram.size()) datagram[bit / 8] ^= std::byte{1} << bit % 8;
    stage_.clients.send(client % Clients::kClients, std::move(datagram), period());
    if (++unpolled_ % 64 == 0) poll();
  }

  // Any header under a right tag.
  void send_any_header() {
    Sender from = sender(Type::kRequest);
    wire::Header header;
    const auto bytes = input_.bytes(wire::kHeaderBytes);
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(&header, 1)).begin());
    header.magic = wire::kMagic;
    header.version = wire::kVersion;
    header.auth = from.header.auth;
    header.tenant_id = from.header.tenant_id;
    header.session = from.header.session;
    header.key_epoch = from.header.key_epoch;
    header.sequence = from.header.sequence;
    header.token = from.header.token;
    from.header = header;
    std::vector<std::byte> payload(header.payload_bytes % 1500);
    for (uint32_t i = 0; i < payload.size(); ++i)
      payload[i] = fuzz::payload_byte(header.request_id, header.offset + i);
    send(from, payload);
  }

  void send_bytes() {
    const uint8_t client = input_.u8();
    const auto bytes = input_.bytes(input_.u16() % 1600);
    stage_.clients.send(client % Clients::kClients, {bytes.begin(), bytes.end()}, period());
    if (++unpolled_ % 64 == 0) poll();
  }

  IngestStage& stage_;
  Input& input_;
  pipeline::Worker& worker_;
  pipeline::WorkerFigures before_;
  std::array<tenant::Tenant, kTenants> tenants_;
  std::array<std::shared_ptr<tenant::Lease>, kTenants> leases_;
  tenant::Intake intake_ = tenant::Intake::kAccept;
  uint32_t removed_ = 0;  // bit i: tenants_[i] is not in the snapshot
  std::array<uint64_t, Clients::kClients> next_sequence_{10'000, 10'000, 10'000, 10'000};
  uint32_t unpolled_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static IngestStage stage;
  if (size > 4096) return 0;
  Input input(data, size);
  Run run(stage, input);
  while (!input.empty()) run.step();
  run.finish();
  return 0;
}
