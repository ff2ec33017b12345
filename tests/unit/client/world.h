// An engine, a network and a server model on one virtual clock. It records how every request ends,
// and fails the test if one ends twice.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/engine.h"
#include "tests/unit/client/memory_network.h"
#include "tests/unit/client/server_model.h"

namespace itif::client::test {

struct WorldOptions {
  uint64_t seed = 1;
  uint32_t num_flows = 1;
  NetworkFaults faults;
  ServerOptions server;
  EngineOptions engine{.session = 77, .first_request = 5000, .first_sequence = 1};
};

struct Ended {
  OutcomeKind kind = OutcomeKind::kLost;
  Outcome outcome;
  Bytes result;
  std::string text() const { return {reinterpret_cast<const char*>(result.data()), result.size()}; }
};

class World final : public OutcomeSink {
 public:
  explicit World(const WorldOptions& world_options)
      : options(world_options),
        random(options.seed),
        network(clock, random, options.num_flows, options.faults),
        server(
            clock, [this](uint32_t flow, Bytes b) { network.send_to_client(flow, std::move(b)); },
            options.server) {
    const wire::Auth kinds[] = {wire::Auth::kHeader, wire::Auth::kFull, wire::Auth::kNone,
                                wire::Auth::kSealed};
    for (uint32_t i = 0; i < std::size(kinds); ++i) {
      Credential credential{
          .tenant_id = i + 1, .key_epoch = static_cast<uint16_t>(i + 1), .auth = kinds[i]};
      for (std::byte& b : credential.key) b = static_cast<std::byte>(random.next());
      credentials.push_back(credential);
      server.add_tenant(credential);
    }
    network.set_server([this](uint32_t flow, const Bytes& b) { server.on_datagram(flow, b); });
    auto made = ClientEngine::create(clock, network, *this, options.engine);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    engine = std::move(*made);
  }

  uint64_t submit(const Order& order, size_t bytes) { return submit(order, bytes, credentials[0]); }
  // Returns the request's tag.
  uint64_t submit(const Order& order, size_t bytes, const Credential& credential,
                  uint32_t budget_us = 0, uint64_t timeout_ns = 0) {
    const uint64_t tag = next_tag_++;
    payloads_[tag] = make_payload(order, bytes);
    EXPECT_EQ(engine->submit({.credential = credential,
                              .budget_us = budget_us,
                              .payload = payloads_[tag],
                              .user_tag = tag,
                              .timeout_ns = timeout_ns}),
              Submit::kAccepted);
    return tag;
  }

  // Gets an answer, so that the client has a token and has measured a latency.
  void warm_up() {
    submit({.seed = 12345}, 64);
    run();
  }

  // Runs until all requests have ended, and a little longer for acks. Fails if that takes too long.
  void run() {
    for (uint64_t steps = 0; engine->in_flight() > 0; ++steps) {
      ASSERT_LT(steps, 2'000'000u) << "the engine never finishes";
      step();
    }
    for (int i = 0; i < 3 || engine->has_unsent(); ++i) {
      engine->poll();
      clock.advance_ns(options.faults.min_delay_ns + options.faults.jitter_ns);
      network.deliver_to_server();
    }
  }

  // Advances the clock to the next event and polls engine, network and server.
  void step() {
    engine->poll();
    const uint64_t now_ns = clock.now_ns();
    uint64_t next_ns = std::min({network.next_event_ns(), engine->next_timer_ns(),
                                 server.next_event_ns(), now_ns + 100'000'000});
    if (engine->has_unsent()) next_ns = std::min(next_ns, now_ns + 1000);
    if (next_ns > now_ns) clock.advance_ns(next_ns - now_ns);
    network.deliver_to_server();
    server.poll();
  }

  const Ended& ended(uint64_t tag) const {
    static const Ended kNever;
    const auto found = ended_.find(tag);
    EXPECT_NE(found, ended_.end()) << "request " << tag << " never ended";
    return found == ended_.end() ? kNever : found->second;
  }
  size_t num_ended() const { return ended_.size(); }
  uint64_t first_request_id() const {
    uint64_t capacity = 1;
    while (capacity < options.engine.max_in_flight) capacity *= 2;
    return options.engine.first_request / capacity * capacity;
  }

  void on_outcomes(std::span<const Outcome> outcomes) noexcept override {
    for (const Outcome& outcome : outcomes) {
      Ended end{outcome.kind, outcome, {outcome.result.begin(), outcome.result.end()}};
      end.outcome.result = {};
      EXPECT_TRUE(ended_.emplace(outcome.user_tag, std::move(end)).second) << "ended twice";
      EXPECT_EQ(payloads_.erase(outcome.user_tag), 1u);  // ASan sees a use after this
    }
  }

  WorldOptions options;
  VirtualClock clock;
  Random random;
  MemoryNetwork network;
  ServerModel server;
  std::vector<Credential> credentials;
  std::unique_ptr<ClientEngine> engine;

 private:
  uint64_t next_tag_ = 1;
  std::map<uint64_t, Bytes> payloads_;
  std::map<uint64_t, Ended> ended_;
};

}  // namespace itif::client::test
