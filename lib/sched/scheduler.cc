#include "sched/scheduler.h"

#include <fmt/format.h>

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

Result<std::unique_ptr<Scheduler>> make_scheduler(std::string_view name) {
  std::string names;
  for (const Entry& entry : kSchedulers) {
    if (entry.name == name) return entry.make();
    names += names.empty() ? "" : ", ";
    names += entry.name;
  }
  return fail(Code::kInvalidArgument, fmt::format("no scheduler '{}': there are {}", name, names));
}

}  // namespace itif::sched
