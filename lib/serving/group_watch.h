// Says what limits each group now, and its GPU utilisation efficacy, from the counts of the last
// seconds.
//
// Keeps two earlier readings: when the newer is 1 s old, it replaces the older and the current one
// replaces it. A reading thus covers the time since a call at least 1 s ago; the first covers the
// time since the start. Any thread.
#pragma once

#include <cstdint>
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
  double refused_per_s = 0;  // by the group, the data plane's limits and quotas
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

  // One report per group, in the order of TenantService::groups().
  std::vector<GroupReport> read();

 private:
  static constexpr uint64_t kPeriodNs = 1'000'000'000;

  // Counts since the start, or since the tenant or the group was made.
  struct Tenant {
    uint64_t responses = 0, overloaded = 0, latency_ns = 0;
    telemetry::Refusals refused;
    pipeline::StageSums stages;
  };
  struct Group {
    uint64_t batches = 0, requests = 0, tokens = 0, refused = 0, busy_ns = 0, turn_wait_ns = 0;
    uint64_t intake_ns = 0, answered = 0, execute_ns = 0;
  };
  struct Reading {
    uint64_t at_ns = 0;
    std::map<uint32_t, Tenant> tenants;   // by id
    std::map<std::string, Group> groups;  // by name
    std::vector<uint64_t> worker_busy_ns;
    uint64_t received = 0, lost = 0;  // datagrams
  };

  Reading take(const std::vector<TenantInfo>& tenants, const std::vector<GroupInfo>& groups) const;
  // Returns the reading to compare `now` with, which is kept for later.
  Reading compared_with(const Reading& now);
  GroupReport report(const GroupInfo& group, const std::vector<TenantInfo>& tenants,
                     const Reading& before, const Reading& now) const;

  const pipeline::Pipeline& pipeline_;
  const TenantService& service_;
  const Clock& clock_;
  std::mutex mutex_;
  Reading older_, newer_;  // guarded by mutex_
};

}  // namespace itif::serving
