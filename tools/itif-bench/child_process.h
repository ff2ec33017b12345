// Runs other programs for a bench.
#pragma once

#include <string>
#include <vector>

namespace itif::bench {

// Runs a program as a child, which ends when we end, and waits for it. It has our standard streams.
// `arguments`: its path and its arguments. Returns how it failed; empty: success.
std::string run_child(std::vector<std::string> arguments);

}  // namespace itif::bench
