// Records the times of requests one by one and stage by stage: what StageRecorder must equal, and
// what it is compared with. Tables of the same sizes, a row of counts per stage.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "pipeline/stage_times.h"
#include "pipeline/tenant_stages.h"

namespace itif::pipeline::test {

struct Answered {
  uint32_t tenant_index = 0;
  request::Times times;
};

class PlainStages {
 public:
  explicit PlainStages(uint32_t num_tenants) : rows_(num_tenants) {}

  void record(std::span<const Answered> burst) {
    for (const Answered& one : burst) prefetch(one.tenant_index, stage_times(one.times));
    for (const Answered& one : burst) {
      const TenantStageTable::Times stages = stage_times(one.times);
      StageFigures& row = rows_[one.tenant_index];
      for (size_t s = 0; s < stages.size(); ++s) {
        all_[s].record(stages[s]);
        ++row.counts[s][TenantLatencyTable::bucket_of(stages[s])];
        row.sums.ns[s] += stages[s];
      }
      ++row.sums.num_requests;
    }
  }
  const StageFigures& of_tenant(uint32_t tenant_index) const { return rows_[tenant_index]; }
  const Histogram& all(size_t stage) const { return all_[stage]; }

 private:
  void prefetch(uint32_t tenant_index, const TenantStageTable::Times& times) const {
    const StageFigures& row = rows_[tenant_index];
    for (size_t s = 0; s < times.size(); ++s)
      __builtin_prefetch(&row.counts[s][TenantLatencyTable::bucket_of(times[s])], 1);
    __builtin_prefetch(&row.sums.ns.front(), 1);
    __builtin_prefetch(&row.sums.num_requests, 1);
  }

  std::vector<StageFigures> rows_;
  std::array<Histogram, telemetry::kNumRequestStages> all_;
};

// Makes `num_bursts` bursts of `size` requests each, of random tenants. The requests of a burst ran
// in one batch, which took from 50 µs to 1 ms.
inline std::vector<Answered> make_bursts(size_t num_bursts, size_t size, uint32_t num_tenants,
                                         uint64_t seed) {
  Random random(seed);
  std::vector<Answered> answered;
  answered.reserve(num_bursts * size);
  uint64_t now_ns = 1'000'000'000;
  for (size_t burst = 0; burst < num_bursts; ++burst) {
    const uint64_t arrival_ns = now_ns += 100'000 + random.below(10'000);
    const uint64_t chosen_ns = arrival_ns + 20'000 + random.below(100'000);
    const uint64_t planned_ns = chosen_ns + 500 + random.below(3000);
    const uint64_t launched_ns = planned_ns + 100 + random.below(1000);
    const uint64_t done_ns = launched_ns + 50'000 + random.below(950'000);
    const uint64_t first_out_ns = done_ns + 500 + random.below(5000);
    for (size_t i = 0; i < size; ++i) {
      const uint64_t verified_ns = arrival_ns + 250 * (i / 8 * 8 + 8);
      answered.push_back({.tenant_index = static_cast<uint32_t>(random.below(num_tenants)),
                          .times = {.arrival_ns = arrival_ns,
                                    .complete_ns = arrival_ns,
                                    .verified_ns = verified_ns,
                                    .queued_ns = verified_ns + 1000 + 200 * i,
                                    .chosen_ns = chosen_ns,
                                    .planned_ns = planned_ns,
                                    .launched_ns = launched_ns,
                                    .done_ns = done_ns,
                                    .first_out_ns = first_out_ns,
                                    .last_out_ns = first_out_ns + 200 * size}});
    }
  }
  return answered;
}

}  // namespace itif::pipeline::test
