#include "ask.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/units.h"
#include "wire/payload.h"

namespace itif::ctl {
namespace {

constexpr uint64_t kLongestWaitNs = 100'000'000;
// After the first report that the server cannot be reached. If another kernel has the address, too,
// the report is that kernel's, and the appliance answers the request or, with busy, its repeat.
constexpr uint64_t kGraceNs = 300'000'000;
constexpr uint64_t kFullNs = 100'000;  // if the transport takes no more
// The kernel asks for a neighbour three times, once a second, before it reports that none answers.
constexpr uint64_t kNeighbourNs = 3'500'000'000;

class Sink final : public client::OutcomeSink {
 public:
  void on_outcomes(std::span<const client::Outcome> outcomes) noexcept override {
    for (const client::Outcome& outcome : outcomes) {
      kind = outcome.kind;
      answer = client::answer_of(outcome);
      has_ended = true;
    }
  }

  bool has_ended = false;
  client::OutcomeKind kind = client::OutcomeKind::kLost;
  client::Answer answer;
};

}  // namespace

std::expected<client::Answer, AskFailure> ask(const Clock& clock,
                                              const client::SocketOptions& socket,
                                              uint32_t fragment_bytes,
                                              const client::Credential& credential,
                                              const client::Query& query, uint64_t timeout_ns) {
  const auto failed = [](int exit_code, Error error) {
    return std::unexpected(AskFailure{exit_code, std::move(error)});
  };
  if (sodium_init() < 0)
    return failed(kRefused, {Code::kInternal, "libsodium cannot be initialised"});
  auto connected = client::SocketTransport::connect(socket);
  if (!connected) return failed(kUnreachable, connected.error());
  client::SocketTransport& transport = **connected;

  client::EngineOptions options{
      .session = randombytes_random(), .max_in_flight = 1, .fragment_bytes = fragment_bytes};
  // Random, so that only a host that sees our datagrams can forge an untagged answer.
  randombytes_buf(&options.first_request, 7);
  options.retry.timeout_ns = timeout_ns;
  Sink sink;
  auto made = client::ClientEngine::create(clock, transport, sink, options);
  if (!made) return failed(kUsage, made.error());
  client::ClientEngine& engine = **made;
  const client::RequestSpec spec{.credential = credential,
                                 .payload_kind = query.payload_kind,
                                 .result_kind = query.result_kind,
                                 .flags = query.flags,
                                 .budget_us = query.budget_us,
                                 .payload = query.payload,
                                 .user_tag = 0};
  if (engine.submit(spec) != client::Submit::kAccepted)
    return failed(kUsage, {Code::kInvalidArgument,
                           fmt::format("a payload of {} bytes is too large: the limit is {}",
                                       query.payload.size(), wire::kMaxTotalBytes)});
  const uint64_t start_ns = clock.now_ns();
  uint64_t reported_ns = 0;  // 0: not yet
  while (!sink.has_ended) {
    const size_t moved = engine.poll();
    if (sink.has_ended) break;
    const uint64_t now_ns = clock.now_ns();
    if (auto why = transport.unreachable()) {
      if (reported_ns == 0) reported_ns = now_ns;
      if (now_ns - reported_ns >= kGraceNs) {
        engine.cancel_all();
        return failed(kUnreachable, std::move(*why));
      }
    }
    uint64_t next_ns = engine.next_timer_ns();
    if (engine.has_unsent()) next_ns = moved > 0 ? now_ns : now_ns + kFullNs;
    if (next_ns > now_ns) transport.wait(std::min(next_ns - now_ns, kLongestWaitNs));
  }
  engine.poll();  // sends the ack of a response of several datagrams
  if (sink.kind != client::OutcomeKind::kLost) return std::move(sink.answer);
  // The tries may end before the kernel knows why none was answered.
  const uint64_t known_ns = start_ns + std::min(timeout_ns, kNeighbourNs);
  std::array<client::Incoming, 1> late;
  while (transport.stats().received == 0 && clock.now_ns() < known_ns) {
    if (auto why = transport.unreachable()) return failed(kUnreachable, std::move(*why));
    transport.wait(std::min(known_ns - clock.now_ns(), kLongestWaitNs));
    (void)transport.receive(late);
  }
  const std::string message =
      fmt::format("no answer from {} port {} to {} tries within {}: {}", socket.server, socket.port,
                  sink.answer.tries, format_duration_ns(sink.answer.latency_ns),
                  client::explain_silence({}, transport.stats(), {}, engine.stats()));
  return failed(kTimedOut, {Code::kUnavailable, message});
}

}  // namespace itif::ctl
