#include "client/blocking_client.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "wire/payload.h"

namespace itif::client {
namespace {

constexpr unsigned kIdsPerCallBits = 20;  // a call takes a new id for each retry of a refusal

}  // namespace

struct BlockingClient::State final : OutcomeSink {
  State(const Clock& c, const SocketOptions& s, const BlockingOptions& o)
      : clock(c), socket_options(s), options(o) {}

  void on_outcomes(std::span<const Outcome> outcomes) noexcept override {
    for (const Outcome& outcome : outcomes) {
      if (outcome.user_tag != sequence) continue;
      ended = true;
      kind = outcome.kind;
      answer = Answer{};
      answer.status = outcome.status;
      answer.result_kind = outcome.result_kind;
      answer.retry_after_us = outcome.retry_after_us;
      answer.server_us = outcome.server_us;
      answer.result_rows = outcome.result_rows;
      answer.model_version = outcome.model_version;
      answer.tries = outcome.tries;
      answer.latency_ns = outcome.completed_ns - outcome.submitted_ns;
      if (outcome.kind == OutcomeKind::kAnswered)
        answer.result.assign(outcome.result.begin(), outcome.result.end());
      else if (outcome.kind == OutcomeKind::kRefused)
        answer.detail = wire::status_detail(outcome.result);
    }
  }

  const Clock& clock;
  SocketOptions socket_options;
  BlockingOptions options;
  std::unique_ptr<SocketTransport> transport;
  std::unique_ptr<ClientEngine> engine;
  // Random, so that only a host that sees our datagrams can forge an untagged answer.
  uint64_t first_request = 0;
  uint64_t sequence = 0;
  bool ended = false;
  OutcomeKind kind = OutcomeKind::kLost;
  Answer answer;
};

BlockingClient::BlockingClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
BlockingClient::~BlockingClient() = default;

Result<std::unique_ptr<BlockingClient>> BlockingClient::connect(const Clock& clock,
                                                                const SocketOptions& socket,
                                                                const BlockingOptions& options) {
  auto state = std::make_unique<State>(clock, socket, options);
  if (sodium_init() < 0) return fail(Code::kInternal, "libsodium cannot be initialised");
  if (state->options.session == 0) state->options.session = randombytes_random();
  randombytes_buf(&state->first_request, sizeof state->first_request);
  ITIF_ASSIGN(state->transport, SocketTransport::connect(socket));
  return std::unique_ptr<BlockingClient>(new BlockingClient(std::move(state)));
}

Result<Answer> BlockingClient::infer(const Credential& credential, const Query& query,
                                     uint64_t timeout_ns) {
  State& s = *state_;
  // Make an engine per call, with the call's timeout. Request ids continue across calls, so a late
  // answer to an earlier call never matches this one.
  EngineOptions options{.session = s.options.session,
                        .first_request = s.first_request + (++s.sequence << kIdsPerCallBits),
                        .max_in_flight = 1,
                        .fragment_bytes = s.options.fragment_bytes,
                        .retry = s.options.retry};
  options.retry.timeout_ns = timeout_ns;
  ITIF_ASSIGN(s.engine, ClientEngine::create(s.clock, *s.transport, s, options));
  s.ended = false;
  const SocketStats before = s.transport->stats();
  const RequestSpec spec{.credential = credential,
                         .payload_kind = query.payload_kind,
                         .result_kind = query.result_kind,
                         .flags = query.flags,
                         .budget_us = query.budget_us,
                         .payload = query.payload,
                         .user_tag = s.sequence};
  if (s.engine->submit(spec) != Submit::kAccepted)
    return fail(Code::kInvalidArgument,
                fmt::format("a payload of {} bytes is too large: the limit is {}",
                            query.payload.size(), wire::kMaxTotalBytes));
  while (!s.ended) {
    const size_t moved = s.engine->poll();
    if (s.ended) break;
    // Wait a little if the transport is full.
    constexpr uint64_t kFullNs = 100'000;
    const uint64_t now_ns = s.clock.now_ns();
    uint64_t next_ns = s.engine->next_timer_ns();
    if (s.engine->has_unsent()) next_ns = moved > 0 ? now_ns : now_ns + kFullNs;
    if (next_ns > now_ns) s.transport->wait(std::min<uint64_t>(next_ns - now_ns, 100'000'000));
  }
  s.engine->poll();  // sends the ack of a response of several datagrams
  if (s.kind != OutcomeKind::kLost) return std::move(s.answer);
  const SocketStats& after = s.transport->stats();
  const char* why = "nothing arrived: check that the server runs and that UDP reaches it";
  if (after.too_big > before.too_big)
    why = "the datagrams exceed the path MTU: choose a smaller fragment size";
  else if (after.unreachable > before.unreachable)
    why = "the network reports (ICMP) that nobody listens there";
  else if (const auto& stats = s.engine->stats(); stats.busy > 0)
    why = "the server has the request but has not answered yet: allow more time";
  else if (stats.dropped[static_cast<size_t>(Drop::kBadTag)] > 0)
    why = "answers had a wrong tag: the key differs from the server's";
  else if (credential.auth != wire::Auth::kNone)
    why =
        "nothing arrived: check that the server runs, that UDP reaches it, and that the key is "
        "right (a server silently drops datagrams that it cannot authenticate)";
  return fail(Code::kUnavailable,
              fmt::format("no answer from {} port {} within {} ms: {}", s.socket_options.server,
                          s.socket_options.port, timeout_ns / 1'000'000, why));
}

}  // namespace itif::client
