// Datagrams and silences in any sequence, received by a client with requests in flight. Every
// request must end at most once, and exactly once after cancel().
//
//   input = { u8: the silence before, 2^(n mod 32) ns; u16 bytes (little-endian); datagram }*
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "client/engine.h"

namespace {

using namespace itif;

constexpr size_t kRequests = 3;

// Accepts all datagrams sent, and receives the one that the test sets.
class OneDatagram final : public client::Transport {
 public:
  uint32_t num_flows() const noexcept override { return 1; }
  size_t send(uint32_t, std::span<const client::Outgoing> batch) noexcept override {
    for (const client::Outgoing& datagram : batch) {
      wire::Datagram sent;
      if (wire::parse(datagram.head, sent) == wire::ParseError::kNone &&
          sent.header.type == wire::Type::kHello)
        hello = sent.header;
      uint8_t sum = 0;  // reads every byte, for AddressSanitizer
      for (const std::byte b : datagram.head)
        sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(b));
      for (const std::byte b : datagram.body)
        sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(b));
      sum_ = sum;
    }
    return batch.size();
  }
  size_t receive(std::span<client::Incoming> batch) noexcept override {
    if (held_.empty() || batch.empty()) return 0;
    lent_ = std::move(held_);
    held_.clear();
    batch[0] = {.flow = 0, .bytes = std::as_writable_bytes(std::span(lent_))};
    return 1;
  }
  void wait(uint64_t) noexcept override {}

  void hold_out(std::vector<uint8_t> datagram) { held_ = std::move(datagram); }

  wire::Header hello;  // the last one sent

 private:
  std::vector<uint8_t> held_, lent_;
  volatile uint8_t sum_ = 0;
};

class Ends final : public client::OutcomeSink {
 public:
  void on_outcomes(std::span<const client::Outcome> outcomes) noexcept override {
    for (const client::Outcome& outcome : outcomes) {
      CHECK(outcome.user_tag < kRequests);
      CHECK(++times[outcome.user_tag] == 1);
    }
  }
  std::array<int, kRequests> times{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  VirtualClock clock;
  OneDatagram transport;
  Ends ends;
  auto engine = client::ClientEngine::create(clock, transport, ends,
                                             {.session = 0x01020304,
                                              .first_request = 0x1122334455667788,
                                              .first_sequence = 1,
                                              .max_in_flight = 4,
                                              .fragment_bytes = 64,
                                              .max_response_bytes = 1u << 16,
                                              .max_reassembly_bytes = 1u << 17});
  CHECK(engine.has_value());
  const std::vector<std::byte> payload(150);
  for (size_t i = 0; i < kRequests; ++i) {
    client::RequestSpec request{.payload = std::span(payload).first(50 * (i + 1)), .user_tag = i};
    request.credential.tenant_id = 7;
    request.credential.auth = wire::Auth::kNone;
    CHECK((*engine)->submit(request) == client::Submit::kAccepted);
  }
  (*engine)->poll();
  wire::Header token = wire::reply_header(transport.hello, wire::Type::kToken);
  token.token = 1;
  std::vector<uint8_t> answer(wire::kHeaderBytes);
  CHECK(wire::build(token, {}, wire::Key{}, std::as_writable_bytes(std::span(answer))) != 0);
  transport.hold_out(answer);
  (*engine)->poll();
  CHECK((*engine)->stats().tokens == 1);

  while (size >= 3) {
    const size_t bytes = std::min<size_t>(size - 3, data[1] | data[2] << 8);
    clock.advance_ns(uint64_t{1} << (data[0] & 31));
    transport.hold_out({data + 3, data + 3 + bytes});
    (*engine)->poll();
    data += 3 + bytes;
    size -= 3 + bytes;
  }

  const client::EngineStats& stats = (*engine)->stats();
  uint64_t dropped = 0;
  for (const uint64_t count : stats.dropped) dropped += count;
  CHECK(stats.datagrams_received == stats.datagrams_used + dropped);
  (*engine)->cancel_all();
  (*engine)->poll();
  CHECK((*engine)->in_flight() == 0);
  for (const int times : ends.times) CHECK(times == 1);
  return 0;
}
