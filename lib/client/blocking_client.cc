#include "client/blocking_client.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <utility>

#include "wire/payload.h"

namespace itif::client {

const char* explain_silence(const SocketStats& sockets_before, const SocketStats& sockets,
                            const EngineStats& before, const EngineStats& now) {
  constexpr auto kBadTag = static_cast<size_t>(Drop::kBadTag);
  if (sockets.too_big > sockets_before.too_big)
    return "the datagrams exceed the path MTU: choose a smaller fragment size";
  if (sockets.unreachable > sockets_before.unreachable)
    return "the network reports (ICMP) that nobody listens there";
  if (now.busy > before.busy)
    return "the server has the request but has not answered yet: allow more time";
  if (now.dropped[kBadTag] > before.dropped[kBadTag])
    return "answers had a wrong tag: the key differs from the server's";
  if (now.tokens == 0)
    return "nothing arrived: check address and port, that the server runs, and that UDP reaches it";
  if (now.datagrams_used > before.datagrams_used)
    return "a server is there, but does not answer strangers: check the tenant's id, key, epoch "
           "and authentication (itifctl tenant show)";
  return "nothing arrived: check that the server runs, that UDP reaches it, and the tenant's id, "
         "key, epoch and authentication (a server does not answer strangers)";
}

Answer answer_of(const Outcome& outcome) {
  Answer answer;
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
  return answer;
}

struct BlockingClient::State final : OutcomeSink {
  State(const Clock& c, const SocketOptions& s, const BlockingOptions& o)
      : clock(c), socket_options(s), options(o) {}

  void on_outcomes(std::span<const Outcome> outcomes) noexcept override {
    for (const Outcome& outcome : outcomes) {
      if (outcome.user_tag != num_calls) continue;
      ended = true;
      kind = outcome.kind;
      answer = answer_of(outcome);
    }
  }

  const Clock& clock;
  SocketOptions socket_options;
  BlockingOptions options;
  std::unique_ptr<SocketTransport> transport;
  std::unique_ptr<ClientEngine> engine;
  uint64_t num_calls = 0;
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
  ITIF_ASSIGN(state->transport, SocketTransport::connect(socket));
  EngineOptions engine{.session = state->options.session,
                       .max_in_flight = 1,
                       .fragment_bytes = options.fragment_bytes,
                       .retry = options.retry};
  // Random, so that only a host that sees our datagrams can forge an untagged answer.
  randombytes_buf(&engine.first_request, sizeof engine.first_request);
  ITIF_ASSIGN(state->engine, ClientEngine::create(clock, *state->transport, *state, engine));
  return std::unique_ptr<BlockingClient>(new BlockingClient(std::move(state)));
}

Result<Answer> BlockingClient::infer(const Credential& credential, const Query& query,
                                     uint64_t timeout_ns) {
  State& s = *state_;
  ++s.num_calls;
  s.ended = false;
  const SocketStats sockets_before = s.transport->stats();
  const EngineStats before = s.engine->stats();
  const RequestSpec spec{.credential = credential,
                         .payload_kind = query.payload_kind,
                         .result_kind = query.result_kind,
                         .flags = query.flags,
                         .budget_us = query.budget_us,
                         .payload = query.payload,
                         .user_tag = s.num_calls,
                         .timeout_ns = timeout_ns};
  switch (s.engine->submit(spec)) {
    case Submit::kAccepted: break;
    case Submit::kFull: return fail(Code::kResourceExhausted, "no memory to encrypt the request");
    case Submit::kTooLarge:
      return fail(Code::kInvalidArgument,
                  fmt::format("a payload of {} bytes is too large: the limit is {}",
                              query.payload.size(), wire::kMaxTotalBytes));
  }
  while (!s.ended) {
    const size_t moved = s.engine->poll();
    if (s.ended) break;
    if (s.transport->stats().unreachable > sockets_before.unreachable) {
      if (const auto unreachable = s.transport->unreachable()) {  // a later call tries again
        s.engine->cancel_all();
        return std::unexpected(*unreachable);
      }
    }
    // Wait a little if the transport is full.
    constexpr uint64_t kFullNs = 100'000;
    const uint64_t now_ns = s.clock.now_ns();
    uint64_t next_ns = s.engine->next_timer_ns();
    if (s.engine->has_unsent()) next_ns = moved > 0 ? now_ns : now_ns + kFullNs;
    if (next_ns > now_ns) s.transport->wait(std::min<uint64_t>(next_ns - now_ns, 100'000'000));
  }
  s.engine->poll();  // sends the ack of a response of several datagrams
  if (s.kind != OutcomeKind::kLost) return std::move(s.answer);
  return fail(Code::kUnavailable,
              fmt::format("no answer from {} port {} within {} ms: {}", s.socket_options.server,
                          s.socket_options.port, timeout_ns / 1'000'000,
                          explain_silence(sockets_before, s.transport->stats(), before,
                                          s.engine->stats())));
}

}  // namespace itif::client
