#include "serving/group_cpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/cpu_list.h"
#include "device/threads.h"

namespace itif::serving {
namespace {

std::vector<unsigned> without(const std::vector<unsigned>& all, const std::vector<unsigned>& some) {
  std::vector<unsigned> rest;
  std::ranges::set_difference(all, some, std::back_inserter(rest));
  return rest;
}

std::vector<unsigned> ascending(std::vector<unsigned> cpus) {
  std::ranges::sort(cpus);
  const auto repeated = std::ranges::unique(cpus);
  cpus.erase(repeated.begin(), repeated.end());
  return cpus;
}

std::string name_cpus(const std::vector<unsigned>& cpus) {
  return fmt::format("CPU{} {}", cpus.size() == 1 ? "" : "s", format_cpus(cpus));
}

}  // namespace

GroupCpus::GroupCpus(std::vector<unsigned> executor_cpus)
    : executor_cpus_(std::move(executor_cpus)),
      all_(ascending(executor_cpus_.empty() ? device::process_cpus() : executor_cpus_)) {}

Status GroupCpus::check(const std::string& group, const std::vector<unsigned>& cpus) const {
  if (const auto unknown = without(cpus, all_); !unknown.empty())
    return fail(Code::kInvalidArgument, fmt::format("group {} cannot have {}: groups compute on {}",
                                                    group, name_cpus(unknown), name_cpus(all_)));
  std::vector<unsigned> shared = without(all_, cpus);
  for (const auto& [other, own] : own_) {
    if (other == group) continue;
    shared = without(shared, own);
    std::vector<unsigned> common;
    std::ranges::set_intersection(cpus, own, std::back_inserter(common));
    if (!common.empty() && cpus != own)
      return fail(Code::kInvalidArgument,
                  fmt::format("group {} cannot have {}: group {} has {} for itself; give both the "
                              "same CPUs or different ones, or take them back with `itifctl group "
                              "update {} --cpus auto`",
                              group, name_cpus(common), other, name_cpus(own), other));
  }
  if (shared.empty())
    return fail(Code::kInvalidArgument,
                fmt::format("group {} cannot have {}: of {}, none would be left for groups without "
                            "CPUs of their own",
                            group, name_cpus(cpus), name_cpus(all_)));
  return {};
}

Status GroupCpus::give(const std::string& group, const std::vector<unsigned>& cpus) {
  if (cpus.empty()) {
    own_.erase(group);
    return {};
  }
  ITIF_TRY(check(group, cpus));
  own_[group] = cpus;
  return {};
}

void GroupCpus::stop(const std::string& group) {
  if (const auto found = running_.find(group); found != running_.end()) running_.erase(found);
}

const std::vector<unsigned>& GroupCpus::own(const std::string& group) const {
  static const std::vector<unsigned> none;
  const auto found = own_.find(group);
  return found == own_.end() ? none : found->second;
}

std::vector<unsigned> GroupCpus::of(const std::string& group) const {
  if (const auto& cpus = own(group); !cpus.empty()) return cpus;
  std::vector<unsigned> shared = all_;
  for (const auto& [other, cpus] : own_)
    if (running_.contains(other)) shared = without(shared, cpus);
  return shared == all_ ? executor_cpus_ : shared;
}

size_t GroupCpus::num_beside(const std::string& group) const {
  const std::vector<unsigned> cpus = of(group);
  return static_cast<size_t>(
      std::ranges::count_if(running_, [&](const std::string& other) { return of(other) == cpus; }));
}

size_t GroupCpus::num_cpus(const std::string& group) const {
  const std::vector<unsigned> cpus = of(group);
  return cpus.empty() ? all_.size() : cpus.size();
}

}  // namespace itif::serving
