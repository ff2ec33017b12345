#include "tenant/version_changes.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace itif::tenant {
namespace {

using enum VersionState;

Version* find(Record& record, VersionState state) noexcept {
  return const_cast<Version*>(find_version(record, state));
}

uint32_t next_number(const Record& record) {
  uint32_t newest = record.version;
  for (const Version& version : record.others) newest = std::max(newest, version.number);
  CHECK(newest < UINT32_MAX);
  return newest + 1;
}

void set_active(Record& record, Version version) {
  record.version = version.number;
  record.model_dir = std::move(version.model_dir);
  record.base_dir = std::move(version.base_dir);
  record.installed_unix_ns = version.installed_unix_ns;
  record.placement = std::move(version.placement);
  record.contents = std::move(version.contents);
}

// Puts the active version among the others. The caller sets another active one.
void put_aside(Record& record, VersionState state) {
  if (Version* previous = find(record, kPrevious); state == kPrevious && previous != nullptr)
    previous->state = kRetired;
  Version version = active_version(record);
  version.state = state;
  const auto after = std::ranges::find_if(
      record.others, [&](const Version& other) { return other.number > version.number; });
  record.others.insert(after, std::move(version));
}

Version take(Record& record, VersionState state) {
  const Version* found = find_version(record, state);
  Version version = *found;
  record.others.erase(record.others.begin() + (found - record.others.data()));
  return version;
}

// Removes the oldest versions that no operation needs.
void prune(Record& record) {
  while (record.others.size() + 1 > kMaxVersions) {
    const auto oldest = std::ranges::find_if(record.others, [](const Version& version) {
      return version.state == kRetired || version.state == kRolledBack;
    });
    if (oldest == record.others.end()) return;
    record.others.erase(oldest);
  }
}

}  // namespace

const char* version_state_name(VersionState state) noexcept {
  switch (state) {
    case kActive: return "active";
    case kCanary: return "canary";
    case kPrevious: return "previous";
    case kRetired: return "retired";
    case kRolledBack: return "rolled_back";
  }
  return "?";
}

Version active_version(const Record& record) {
  return {record.version,  record.model_dir, record.installed_unix_ns, kActive,
          record.base_dir, record.placement, record.contents};
}

const Version* find_version(const Record& record, VersionState state) noexcept {
  const Version* newest = nullptr;
  for (const Version& version : record.others)
    if (version.state == state) newest = &version;  // in order of their numbers
  return newest;
}

std::vector<Version> all_versions(const Record& record) {
  std::vector<Version> all = record.others;
  all.push_back(active_version(record));
  std::ranges::sort(all, std::ranges::greater{}, &Version::number);
  return all;
}

void place_version(Record& record, uint32_t number, const Placement& placement) {
  if (number == record.version) record.placement = placement;
  for (Version& version : record.others)
    if (version.number == number) version.placement = placement;
}

void note_contents(Record& record, uint32_t number, const Contents& contents) {
  if (number == record.version) record.contents = contents;
  for (Version& version : record.others)
    if (version.number == number) version.contents = contents;
}

uint32_t renumber_version(Record& record, uint32_t number, const Contents& contents,
                          uint64_t unix_ns) {
  Version* canary = find(record, kCanary);
  CHECK(number == record.version || (canary != nullptr && number == canary->number));
  Version next = number == record.version ? active_version(record) : *canary;
  next.number = next_number(record);
  next.installed_unix_ns = unix_ns;
  next.contents = contents;
  const uint32_t new_number = next.number;
  if (next.state == kActive) {
    put_aside(record, kPrevious);
    set_active(record, std::move(next));
  } else {
    canary->state = kRolledBack;
    record.others.push_back(std::move(next));
  }
  prune(record);
  return new_number;
}

std::string neighbour_group(const Record& record, uint32_t number) {
  if (number != record.version) return record.placement.group;
  const Version* previous = find_version(record, kPrevious);
  return previous == nullptr ? std::string() : previous->placement.group;
}

void install_version(Record& record, std::string model_dir, uint64_t unix_ns,
                     std::string base_dir) {
  CHECK(find_version(record, kCanary) == nullptr);
  const uint32_t number = next_number(record);
  put_aside(record, kPrevious);
  set_active(record, {number, std::move(model_dir), unix_ns, kActive, std::move(base_dir)});
  prune(record);
}

void install_canary(Record& record, std::string model_dir, uint32_t percent, uint64_t unix_ns,
                    std::string base_dir) {
  CHECK(find_version(record, kCanary) == nullptr);
  record.others.push_back(
      {next_number(record), std::move(model_dir), unix_ns, kCanary, std::move(base_dir)});
  record.canary_percent = percent;
  prune(record);
}

bool promote_canary(Record& record) {
  if (find_version(record, kCanary) == nullptr) return false;
  Version canary = take(record, kCanary);
  put_aside(record, kPrevious);
  set_active(record, std::move(canary));
  record.canary_percent = 0;
  return true;
}

bool roll_back(Record& record) {
  if (Version* canary = find(record, kCanary)) {
    canary->state = kRolledBack;
    record.canary_percent = 0;
    return true;
  }
  if (find_version(record, kPrevious) == nullptr) return false;
  Version previous = take(record, kPrevious);
  put_aside(record, kRolledBack);
  set_active(record, std::move(previous));
  Version* before = nullptr;
  for (Version& version : record.others)
    if (version.state == kRetired && version.number < record.version) before = &version;
  if (before != nullptr) before->state = kPrevious;
  return true;
}

}  // namespace itif::tenant
