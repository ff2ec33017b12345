// Explains each reason to drop a datagram, for `itifctl drops` and docs/operations.md. A test
// compares the document's tables, of drops and of repeats, with these explanations.
#pragma once

#include <optional>
#include <string_view>

#include "net/drop_reason.h"

namespace itif::net {

struct DropExplanation {
  std::string_view means;   // one sentence
  std::string_view remedy;  // one sentence: what to do
};

// REQUIRES: reason is neither kNone nor kCount.
const DropExplanation& explain_drop(DropReason reason);

// Returns the reason of this name ("runt"); nullopt: there is none, or it is "none".
std::optional<DropReason> find_drop_reason(std::string_view name);

}  // namespace itif::net
