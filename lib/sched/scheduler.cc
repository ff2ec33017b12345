#include "sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/policies.h"

namespace itif::sched {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Scheduler> (*make)();
};

constexpr Entry kSchedulers[] = {
    {"fair", make_fair},
    {"fcfs", make_fcfs},
};

}  // namespace

uint64_t room(const BatchLimits& limits, const std::vector<request::Request*>& batch) noexcept {
  uint64_t tokens = 0;
  for (const request::Request* request : batch) tokens += request->num_tokens;
  return limits.max_tokens - std::min<uint64_t>(tokens, limits.max_tokens);
}

Result<std::unique_ptr<Scheduler>> make_scheduler(std::string_view name) {
  std::string names;
  for (const Entry& entry : kSchedulers) {
    if (entry.name == name) return entry.make();
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  return fail(Code::kInvalidArgument,
              fmt::format("unknown scheduler '{}': use one of {}", name, names));
}

}  // namespace itif::sched
