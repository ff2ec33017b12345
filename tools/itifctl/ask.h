// Sends one request over UDP, for `itifctl infer`. As client::BlockingClient, but a server that
// cannot be reached ends the call at once, with the cause, instead of after the timeout.
#pragma once

#include <expected>

#include "client/client.h"
#include "context.h"

namespace itif::ctl {

struct AskFailure {
  int exit_code = kTimedOut;  // kUnreachable, kUsage (the payload is too large) or kTimedOut
  Error error;
};

std::expected<client::Answer, AskFailure> ask(const Clock& clock,
                                              const client::SocketOptions& socket,
                                              uint32_t fragment_bytes,
                                              const client::Credential& credential,
                                              const client::Query& query, uint64_t timeout_ns);

}  // namespace itif::ctl
