#include "pipeline/stage_recorder.h"

#include <span>

#include "pipeline/stage_times.h"

namespace itif::pipeline {

void StageRecorder::add(uint32_t tenant_index, const request::Times& times) noexcept {
  const TenantStageTable::Times stages = stage_times(times);
  tenants_.find(tenant_index, stages, cells_[size_]);
  for_each_request_stage([&](size_t stage) { ns_[stage][size_] = stages[stage]; });
  if (++size_ == kBlock) flush();
}

void StageRecorder::flush() noexcept {
  for (size_t i = 0; i < size_; ++i)
    TenantStageTable::record(cells_[i], [&](size_t stage) { return ns_[stage][i]; });
  for_each_request_stage([&](size_t s) {
    const auto stage = static_cast<telemetry::Stage>(s);
    if (size_ == 1)
      all_.record(stage, ns_[s][0]);
    else
      all_.record(stage, std::span(ns_[s]).first(size_));
  });
  num_recorded_ += size_;
  size_ = 0;
}

}  // namespace itif::pipeline
