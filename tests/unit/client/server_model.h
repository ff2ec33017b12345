// A minimal server of docs/protocol.md, without models. A request's payload orders its outcome
// (Order), so that a test knows every outcome in advance.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "client/types.h"
#include "tests/unit/client/memory_network.h"

namespace itif::client::test {

// The first bytes of a request's payload; the rest is filler derived from `seed`.
struct Order {
  uint32_t seed = 0;
  uint32_t response_bytes = 0;
  uint32_t status = 0;      // ≠ 0: refuse with this status
  uint32_t service_us = 0;  // time between the last piece and the answer
  uint32_t overloaded = 0;  // first refuse this many times with kOverloaded
};

// Returns a payload for an order. REQUIRES: bytes ≥ sizeof(Order).
Bytes make_payload(const Order& order, size_t bytes);
// Returns the server's answer to an order.
Bytes make_response(const Order& order);

struct ServerOptions {
  uint32_t fragment_bytes = wire::kDefaultFragmentBytes;
  bool answer_strangers = false;  // data_plane.answer_bad_tags
  uint64_t token_life_ns = 400'000'000;
  uint64_t resend_after_ns = 3'000'000;
  uint64_t context_life_ns = 2'000'000'000;  // a half-sent request is dropped after this
};

class ServerModel {
 public:
  using Send = std::function<void(uint32_t flow, Bytes)>;

  ServerModel(const Clock& clock, Send send, ServerOptions options)
      : clock_(clock), send_(std::move(send)), options_(options) {}

  void add_tenant(const Credential& credential) { tenants_[credential.tenant_id] = credential; }
  void on_datagram(uint32_t flow, Bytes bytes);
  // Tokens given before are no longer valid.
  void change_secret() {
    secret_[0] = static_cast<std::byte>(static_cast<uint8_t>(secret_[0]) + 1);
  }
  // Another process takes its place, which counts from `first_sequence`.
  void restart(uint64_t first_sequence) {
    change_secret();
    contexts_.clear();
    seen_.clear();
    next_sequence_ = first_sequence;
  }
  // Sends due answers and asks for missing pieces.
  void poll();
  uint64_t next_event_ns() const;

  uint64_t executed = 0;             // requests run, repeats not counted
  uint32_t busy_us = 0;              // busy answers ask for a repeat after this time
  std::vector<uint32_t> budgets_us;  // of all requests, in order of arrival
  uint32_t forget_after_pieces = 0;  // forgets the next response after as many pieces; 0: never
  uint64_t acks = 0;
  uint64_t wrong_payloads = 0;  // whole requests whose bytes differ from the client's
  uint64_t refused_datagrams = 0;
  uint64_t resends_asked = 0;
  uint64_t tokens_given = 0;
  uint64_t token_refusals = 0;
  uint64_t replayed = 0;  // dropped, because the sequence number was seen before

 private:
  using RequestKey = std::pair<uint32_t, uint64_t>;  // session, id
  struct Context {
    Credential credential;
    uint32_t flow = 0;
    wire::Header header;
    Bytes payload;
    std::vector<bool> here;
    size_t num_missing = 0;
    bool answered = false;
    bool overloaded = false;  // answered kOverloaded; repeats of this id get the same
    uint64_t created_ns = 0;
    uint64_t done_ns = 0;  // of a whole request: when the answer is ready
    uint64_t ask_ns = 0;   // of a partial request: when to ask for the rest
    uint64_t run = 0;      // differs between two runs of a request
    Order order;
  };

  // Verifies, decrypts and accepts a datagram once. Returns nullptr if it is to be dropped.
  const Credential* admit(uint32_t flow, const wire::Datagram& datagram);
  bool has_token(uint32_t flow, const wire::Header& header) const;
  void on_request(uint32_t flow, const wire::Datagram& datagram);
  void answer(Context& context);
  void send_pieces(const Context& context, uint32_t from, uint32_t to);
  void send_status(const wire::Header& to, uint32_t flow, wire::StatusCode code,
                   const Credential* credential, uint32_t aux = 0, uint64_t token = 0);
  void send(uint32_t flow, wire::Header header, std::span<const std::byte> payload,
            const wire::Key& key);
  void ask_for_missing(Context& context);
  uint64_t token_of(uint32_t flow, uint32_t session, uint64_t period) const;

  const Clock& clock_;
  const Send send_;
  const ServerOptions options_;
  std::map<uint32_t, Credential> tenants_;
  std::map<RequestKey, Context> contexts_;
  std::vector<RequestKey> forgotten_;
  std::map<uint32_t, uint32_t> overloaded_;  // order.seed → times refused
  // Numbers seen of a tenant's session on a flow.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::set<uint64_t>> seen_;
  uint64_t next_sequence_ = 1;
  wire::Key secret_{};  // of the tokens
};

}  // namespace itif::client::test
