// Records the times of a worker's answered requests, in histograms of all tenants together and of
// each. One thread records, others read.
//
// Requests are recorded in blocks. The rows of many tenants do not fit the cache, so add()
// prefetches the memory that is written when the block ends. The histograms of all tenants take a
// block's values stage by stage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "pipeline/tenant_stages.h"
#include "request/times.h"
#include "telemetry/stages.h"

namespace itif::pipeline {

class StageRecorder {
 public:
  static constexpr size_t kBlock = 16;  // requests

  // Without `records`, add() must not be called, and the tenants' table takes no memory.
  explicit StageRecorder(bool records) : tenants_(records) {}

  // Owner. Adds an answered request; readers see it after flush() at the latest.
  void add(uint32_t tenant_index, const request::Times& times) noexcept;
  void flush() noexcept;
  // Owner. Adds a refusal that was handed over for transmission `ns` after its request's deadline.
  void add_expired(uint64_t ns) noexcept { all_.record(telemetry::Stage::kExpire, ns); }
  // Owner. As telemetry::StageHistograms.
  bool publish() noexcept { return all_.publish(); }
  uint64_t num_recorded() const noexcept { return num_recorded_; }  // answered requests

  // Any thread.
  const telemetry::StageHistograms& all() const noexcept { return all_; }
  const TenantStageTable& tenants() const noexcept { return tenants_; }

 private:
  telemetry::StageHistograms all_;
  TenantStageTable tenants_;
  uint64_t num_recorded_ = 0;
  // The present block.
  size_t size_ = 0;
  std::array<std::array<uint64_t, kBlock>, telemetry::kNumRequestStages> ns_;  // by stage
  std::array<TenantStageTable::Cells, kBlock> cells_;
};

}  // namespace itif::pipeline
