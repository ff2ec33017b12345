// Says what limits each group now, and its GPU utilisation efficacy, from the counts of the last
// seconds.
//
// Each call adds what has been counted since the call before to the sums of its groups, and keeps
// these sums for a while. A report covers the time since the newest kept sums that are old enough
// for its caller, so that callers do not shorten each other's intervals; the first covers the time
// since the start. Any thread.
//
// A tenant's counts belong to the group of its model. If its canary is in another group, each of
// the two groups gets a part of the tenant's counts in proportion to the answers of its versions,
// with the tenant's mean times: those of the two versions are not known apart.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "pipeline/pipeline.h"
#include "serving/tenant_service.h"
#include "telemetry/bottleneck.h"
#include "telemetry/gue.h"

namespace itif::serving {

struct GroupReport {
  std::string name;
  telemetry::GroupLoad load = {};
  telemetry::Verdict verdict = {};
  double requests_per_s = 0;
  double refused_per_s = 0;  // also late ones, and by the data plane's limits and quotas
  double latency_ns = 0;     // mean, from a request's first piece until its response can be sent
  // Mean time of an answer's batch, from its start to its end; 0: nothing was answered.
  double batch_ns = 0;
  double gue = 0;  // telemetry::gue() of requests_per_s and batch_ns
  double share_percent = 0;
};

class GroupWatch {
 public:
  // All arguments outlive the object.
  GroupWatch(const pipeline::Pipeline& pipeline, const TenantService& service, const Clock& clock);

  static constexpr uint64_t kLeastIntervalNs = 1'000'000'000;
  static constexpr uint64_t kMostIntervalNs = 3'600'000'000'000;
  // Returns one report per group, in the order of TenantService::groups(). It covers `interval_ns`,
  // from kLeastIntervalNs to kMostIntervalNs, or up to a tenth more, or longer if the call before
  // was longer ago.
  std::vector<GroupReport> read(uint64_t interval_ns = kLeastIntervalNs);

 private:
  struct TenantCounts {
    uint64_t responses = 0, overloaded = 0, late = 0, arrived_late = 0, latency_ns = 0;
    telemetry::Refusals refused;
    pipeline::StageSums stages;
  };
  struct GroupCounts {
    uint64_t batches = 0, requests = 0, tokens = 0, refused = 0, busy_ns = 0, turn_wait_ns = 0;
    uint64_t intake_ns = 0, answered = 0, execute_ns = 0;
  };
  // A tenant's counts since it was made, and those of its versions.
  struct Tenant {
    TenantCounts counts;
    uint64_t answered_by_active = 0, answered_by_canary = 0;
  };
  // A group's counts since this object was made.
  struct Sums {
    TenantCounts tenants;
    GroupCounts group;
    uint64_t running_ns = 0, running_turn_wait_ns = 0;  // of its running batch
  };
  struct Reading {
    uint64_t at_ns = 0;
    std::map<std::string, Sums> groups;  // by name
    std::vector<uint64_t> worker_busy_ns;
    uint64_t received = 0, lost = 0;  // datagrams
  };

  static TenantCounts since(const TenantCounts& now, const TenantCounts& before);
  static GroupCounts since(const GroupCounts& now, const GroupCounts& before);
  // Adds `part` of the counts.
  static void add(TenantCounts& sum, const TenantCounts& counts, double part);
  static void add(GroupCounts& sum, const GroupCounts& counts);
  static GroupCounts counts_of(const GroupInfo& group);
  TenantCounts counts_of(const TenantInfo& tenant) const;
  void count_tenant(const TenantInfo& tenant);
  void count_group(const GroupInfo& group);
  // Counts up to now, and returns the sums.
  Reading count(const std::vector<TenantInfo>& tenants, const std::vector<GroupInfo>& groups);
  void keep(const Reading& now);
  GroupReport report(const GroupInfo& group, const Reading& before, const Reading& now) const;

  const pipeline::Pipeline& pipeline_;
  const TenantService& service_;
  const Clock& clock_;
  std::mutex mutex_;                           // guards all below
  std::map<uint32_t, Tenant> tenants_;         // as last counted, by id
  std::map<std::string, GroupCounts> groups_;  // as last counted, by name
  std::map<std::string, Sums> sums_;           // by group
  std::deque<Reading> kept_;                   // oldest first; never empty
};

}  // namespace itif::serving
