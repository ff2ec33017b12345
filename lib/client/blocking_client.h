// Sends one request at a time over a UDP socket, for tools and scripts:
//
//   SystemClock clock;
//   auto client = BlockingClient::connect(clock, {.server = "198.18.0.1"});
//   auto answer = (*client)->infer(credential, {.payload = as_bytes(span(text))}, 5'000'000'000);
//   if (!answer) …  // no answer: answer.error().message says why
//   if (answer->status != wire::StatusCode::kOk) …  // the server refused: answer->detail
//   auto classes = decode_classes(answer->result);  // client/result.h
//
// One owner thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "client/engine.h"
#include "client/socket_transport.h"

namespace itif::client {

struct Query {
  wire::PayloadKind payload_kind = wire::PayloadKind::kText;
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  std::span<const std::byte> payload = {};
  uint16_t flags = 0;
  uint32_t budget_us = 0;
};

struct Answer {
  wire::StatusCode status = wire::StatusCode::kOk;
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  std::vector<std::byte> result;  // status kOk
  std::string detail;             // any other status: the server's message, or empty
  uint32_t retry_after_us = 0;    // refused: delay before a retry; 0: unknown
  uint32_t server_us = 0;         // the time that the server reports
  uint32_t result_rows = 0;       // rows (tokens, classes, …) in the result
  // With kFlagModelVersion: the number of the version that answered, modulo 65536.
  std::optional<uint16_t> model_version;
  uint32_t tries = 0;
  uint64_t latency_ns = 0;  // from the call to the last piece
};
// Says why a request got no answer, from the counts before and after it.
const char* explain_silence(const SocketStats& sockets_before, const SocketStats& sockets,
                            const EngineStats& before, const EngineStats& now);
// Copies an outcome, whose result is valid only during its delivery.
Answer answer_of(const Outcome& outcome);

struct BlockingOptions {
  uint32_t session = 0;  // 0: random (libsodium)
  uint32_t fragment_bytes = wire::kDefaultFragmentBytes;
  RetryPolicy retry = {};  // infer() has its own timeout
};

class BlockingClient {
 public:
  // Errors: SocketTransport's and ClientEngine's. `clock` must outlive the client.
  static Result<std::unique_ptr<BlockingClient>> connect(const Clock& clock,
                                                         const SocketOptions& socket,
                                                         const BlockingOptions& options = {});
  ~BlockingClient();

  // Sends one request and waits for its answer. Errors: kUnavailable (no answer within timeout_ns,
  // or the network reports that no server is there; the message names the likely cause),
  // kInvalidArgument (payload too large).
  Result<Answer> infer(const Credential& credential, const Query& query, uint64_t timeout_ns);

 private:
  struct State;
  explicit BlockingClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace itif::client
