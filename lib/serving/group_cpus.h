// Divides the executors' CPUs among groups. A group may have CPUs of its own, which only groups
// with the same set compute on. All other groups share the CPUs that no group has for itself.
//
// So two groups have either the same CPUs, on which they compute in turns
// (device/host/turns.h), or none in common, and compute at once. One exception: if the groups with
// CPUs of their own have all of them, a group that comes later computes on all, without turns.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::serving {

class GroupCpus {
 public:
  // `executor_cpus`: of all groups; empty: all CPUs of the process.
  explicit GroupCpus(std::vector<unsigned> executor_cpus);

  // Adds a group without CPUs of its own. REQUIRES: no such number.
  void add(uint16_t number, const std::string& name);
  void remove(uint16_t number);  // an unknown number is ignored

  // Gives a group CPUs of its own, ascending; empty: takes them back. Changes the CPUs of the
  // groups without. Errors: kInvalidArgument, and nothing changes: the executors have no such CPU,
  // another group has some of them but not the same set, or groups without CPUs of their own would
  // have none. REQUIRES: add().
  Status give(uint16_t number, const std::vector<unsigned>& cpus);

  // REQUIRES: add().
  const std::vector<unsigned>& own(uint16_t number) const { return groups_.at(number).own; }
  // Returns the CPUs that the group computes on; empty: all of the process. REQUIRES: add().
  std::vector<unsigned> of(uint16_t number) const;

 private:
  struct Group {
    std::string name;
    std::vector<unsigned> own;
  };

  std::vector<unsigned> shared_without(uint16_t number) const;

  const std::vector<unsigned> executor_cpus_;
  const std::vector<unsigned> all_;  // the same, never empty
  std::map<uint16_t, Group> groups_;
};

}  // namespace itif::serving
