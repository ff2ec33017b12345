// Sums of the workers' counters, for display. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/drop_reason.h"
#include "pipeline/tenant_latency.h"
#include "pipeline/tenant_stages.h"
#include "pipeline/worker.h"

namespace itif::pipeline {

using Workers = std::span<const std::unique_ptr<Worker>>;

struct TenantFigures {
  uint64_t received = 0, forwarded = 0;                  // datagrams
  uint64_t held = 0;                                     // a gauge: operator-= does not change it
  std::array<uint64_t, net::kNumDropReasons> dropped{};  // by net::DropReason, repeats included
  uint64_t requests = 0, responses = 0, deadline_missed = 0, slo_missed = 0, tokens = 0;
  uint64_t latency_ns = 0;                                 // sum of the responses
  std::array<uint64_t, wire::kNumStatusCodes> statuses{};  // by wire::StatusCode
  TenantLatencyTable::Counts latency{};

  uint64_t total_statuses() const;
  uint64_t total_dropped() const;  // without repeats
  uint64_t total_repeated() const;
  TenantFigures& operator+=(const TenantFigures& other);
  TenantFigures& operator-=(const TenantFigures& other);
};
TenantFigures tenant_figures(Workers workers, uint32_t tenant_index);
StageFigures tenant_stages(Workers workers, uint32_t tenant_index);
StageSums tenant_stage_sums(Workers workers, uint32_t tenant_index);

struct WorkerFigures {
  uint64_t received = 0, received_bytes = 0, passed = 0, forwarded = 0, held = 0, sent = 0,
           sent_bytes = 0;
  uint64_t send_dropped = 0, send_no_mbuf = 0, transmit_refused = 0;
  uint64_t contexts = 0, held_bytes = 0, requests = 0, responses = 0, statuses = 0;
  uint64_t cache_hits = 0, polls = 0, idle_polls = 0, busy_ns = 0;
  std::vector<uint64_t> dropped;  // by net::DropReason, repeats included

  uint64_t total_dropped() const;  // without repeats
  uint64_t total_repeated() const;
  WorkerFigures& operator+=(const WorkerFigures& other);
};
WorkerFigures worker_figures(const Worker& worker);
WorkerFigures total_figures(Workers workers);

telemetry::StageHistograms::Set stage_histograms(Workers workers);

}  // namespace itif::pipeline
