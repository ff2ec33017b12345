// Divides the executors' CPUs among groups. A group may have CPUs of its own, which only groups
// with the same set compute on. All other groups share the remaining CPUs, at least one.
//
// So two groups either have the same CPUs, on which they compute in turns (device/host/turns.h), or
// have none in common and compute at the same time. Sets are kept by the groups' names, also while
// a group does not run. The result does not depend on the order in which groups start.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::serving {

class GroupCpus {
 public:
  // `executor_cpus`: of all groups; empty: all CPUs of the process.
  explicit GroupCpus(std::vector<unsigned> executor_cpus);

  // Gives a group CPUs of its own, ascending; empty: takes them back, which never fails. Groups
  // without own CPUs share those that remain. Errors: kInvalidArgument, and nothing changes: the
  // executors have no such CPU, another group has some of them but not the same set, or none would
  // be left for groups without.
  Status give(const std::string& group, const std::vector<unsigned>& cpus);
  // A group that runs is counted once for each start(): two run while a group moves to another
  // device.
  void start(const std::string& group) { running_.insert(group); }
  void stop(const std::string& group);

  const std::vector<unsigned>& own(const std::string& group) const;
  // Returns the CPUs that the group computes on; empty: all of the process. The CPUs of a group
  // that does not run are shared meanwhile.
  std::vector<unsigned> of(const std::string& group) const;
  // Returns how many running groups compute on this group's CPUs, itself included.
  size_t num_beside(const std::string& group) const;
  // Returns the number of CPUs of of().
  size_t num_cpus(const std::string& group) const;

 private:
  Status check(const std::string& group, const std::vector<unsigned>& cpus) const;

  const std::vector<unsigned> executor_cpus_;
  const std::vector<unsigned> all_;  // the same, ascending, never empty
  std::map<std::string, std::vector<unsigned>> own_;
  std::multiset<std::string> running_;
};

}  // namespace itif::serving
