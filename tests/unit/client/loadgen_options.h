// Basic options for tests of itif-loadgen: two tenants, one of which gets three times the requests.
#pragma once

#include "tools/itif-loadgen/options.h"

namespace itif::loadgen {

inline Options basic_options() {
  Options options;
  Target target{.name = "a", .credential = {.tenant_id = 1, .key_epoch = 2}};
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

}  // namespace itif::loadgen
