#include "serving/group_cpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/cpu_list.h"
#include "device/threads.h"

namespace itif::serving {
namespace {

std::vector<unsigned> without(const std::vector<unsigned>& all, const std::vector<unsigned>& some) {
  std::vector<unsigned> rest;
  std::ranges::set_difference(all, some, std::back_inserter(rest));
  return rest;
}

std::vector<unsigned> sorted(std::vector<unsigned> cpus) {
  std::ranges::sort(cpus);
  return cpus;
}

}  // namespace

GroupCpus::GroupCpus(std::vector<unsigned> executor_cpus)
    : executor_cpus_(std::move(executor_cpus)),
      all_(sorted(executor_cpus_.empty() ? device::process_cpus() : executor_cpus_)) {}

void GroupCpus::add(uint16_t number, const std::string& name) {
  CHECK(groups_.emplace(number, Group{.name = name, .own = {}}).second);
}

void GroupCpus::remove(uint16_t number) {
  groups_.erase(number);
}

// Returns the CPUs that no group but this one has for itself.
std::vector<unsigned> GroupCpus::shared_without(uint16_t number) const {
  std::vector<unsigned> cpus = all_;
  for (const auto& [other, group] : groups_)
    if (other != number) cpus = without(cpus, group.own);
  return cpus;
}

Status GroupCpus::give(uint16_t number, const std::vector<unsigned>& cpus) {
  Group& group = groups_.at(number);
  const std::vector<unsigned> unknown = without(cpus, all_);
  if (!unknown.empty())
    return fail(Code::kInvalidArgument,
                fmt::format("group {} cannot have CPU {}: groups compute on CPUs {}", group.name,
                            format_cpus(unknown), format_cpus(all_)));
  for (const auto& [other_number, other] : groups_) {
    std::vector<unsigned> common;
    std::ranges::set_intersection(cpus, other.own, std::back_inserter(common));
    if (other_number == number || common.empty() || cpus == other.own) continue;
    return fail(Code::kInvalidArgument,
                fmt::format("group {} cannot have CPU {}: group {} has CPUs {} for itself; give "
                            "both groups the same CPUs, or different ones",
                            group.name, format_cpus(common), other.name, format_cpus(other.own)));
  }
  const auto shares = std::ranges::find_if(groups_, [number](const auto& entry) {
    return entry.first != number && entry.second.own.empty();
  });
  if (!cpus.empty() && shares != groups_.end() && without(shared_without(number), cpus).empty())
    return fail(Code::kInvalidArgument,
                fmt::format("group {} cannot have CPUs {}: none would be left for group {}",
                            group.name, format_cpus(cpus), shares->second.name));
  group.own = cpus;
  return {};
}

std::vector<unsigned> GroupCpus::of(uint16_t number) const {
  const std::vector<unsigned>& own = groups_.at(number).own;
  if (!own.empty()) return own;
  std::vector<unsigned> shared = shared_without(number);
  return shared.empty() || shared == all_ ? executor_cpus_ : shared;
}

}  // namespace itif::serving
