// Basic options for tests of itif-loadgen: two tenants, one of which gets three times the requests.
#pragma once

#include <vector>

#include "tools/itif-loadgen/options.h"
#include "wire/datagram.h"

namespace itif::loadgen {

inline Options basic_options() {
  Options options;
  Target target{.name = "a",
                .credential = {.tenant_id = 1, .key_epoch = 2, .auth = wire::Auth::kHeader}};
  for (size_t i = 0; i < 16; ++i) target.credential.key[i] = static_cast<std::byte>(i * 7);
  options.targets.push_back(target);
  target.name = "b";
  target.credential.tenant_id = 2;
  target.credential.auth = wire::Auth::kFull;
  target.weight = 3;
  options.targets.push_back(target);
  options.lengths = {Lengths::Kind::kUniform, 16, 600};
  return options;
}

// The server's answer to a hello.
inline std::vector<std::byte> token_for(const wire::Header& hello, uint64_t token) {
  wire::Header header = wire::reply_header(hello, wire::Type::kToken);
  header.token = token;
  header.budget_us = 30'000'000;
  std::vector<std::byte> bytes(wire::kHeaderBytes);
  bytes.resize(wire::build(header, {}, wire::Key{}, bytes));
  return bytes;
}

}  // namespace itif::loadgen
