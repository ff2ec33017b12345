#include "pipeline/figures.h"

#include <numeric>

namespace itif::pipeline {

namespace {

template <class Combine>
void combine(TenantFigures& into, const TenantFigures& other, Combine&& apply) {
  apply(into.received, other.received);
  apply(into.forwarded, other.forwarded);
  apply(into.requests, other.requests);
  apply(into.responses, other.responses);
  apply(into.deadline_missed, other.deadline_missed);
  apply(into.slo_missed, other.slo_missed);
  apply(into.tokens, other.tokens);
  apply(into.latency_ns, other.latency_ns);
  for (size_t i = 0; i < into.dropped.size(); ++i) apply(into.dropped[i], other.dropped[i]);
  for (size_t i = 0; i < into.statuses.size(); ++i) apply(into.statuses[i], other.statuses[i]);
  for (size_t i = 0; i < into.latency.size(); ++i) apply(into.latency[i], other.latency[i]);
}

}  // namespace

TenantFigures& TenantFigures::operator-=(const TenantFigures& other) {
  combine(*this, other, [](uint64_t& a, uint64_t b) { a -= b; });
  return *this;
}

TenantFigures& TenantFigures::operator+=(const TenantFigures& other) {
  combine(*this, other, [](uint64_t& a, uint64_t b) { a += b; });
  held += other.held;
  return *this;
}

uint64_t TenantFigures::total_dropped() const {
  return net::sum_of(dropped, net::DropClass::kDropped);
}

uint64_t TenantFigures::total_repeated() const {
  return net::sum_of(dropped, net::DropClass::kRepeated);
}

uint64_t TenantFigures::total_statuses() const {
  return std::accumulate(statuses.begin(), statuses.end(), uint64_t{0});
}

TenantFigures tenant_figures(Workers workers, uint32_t tenant_index) {
  TenantFigures sum;
  for (const auto& worker : workers) {
    const telemetry::TenantCounters& c = worker->tenant_counters()[tenant_index];
    sum.received += c.received.read();
    sum.forwarded += c.forwarded.read();
    sum.held += c.held.read();
    for (size_t i = 0; i < sum.dropped.size(); ++i) sum.dropped[i] += c.dropped[i].read();
    sum.requests += c.requests.read();
    sum.responses += c.responses.read();
    for (size_t i = 0; i < sum.statuses.size(); ++i) sum.statuses[i] += c.statuses[i].read();
    sum.deadline_missed += c.deadline_missed.read();
    sum.slo_missed += c.slo_missed.read();
    sum.tokens += c.tokens.read();
    sum.latency_ns += c.latency_ns.read();
    worker->latencies().merge_into(tenant_index, sum.latency);
  }
  return sum;
}

StageFigures tenant_stages(Workers workers, uint32_t tenant_index) {
  StageFigures figures;
  for (const auto& worker : workers) worker->tenant_stages().merge_into(tenant_index, figures);
  return figures;
}

StageSums tenant_stage_sums(Workers workers, uint32_t tenant_index) {
  StageSums sums;
  for (const auto& worker : workers) worker->tenant_stages().merge_into(tenant_index, sums);
  return sums;
}

WorkerFigures worker_figures(const Worker& worker) {
  const telemetry::WorkerCounters& c = worker.counters();
  WorkerFigures f;
  f.received = c.received.read();
  f.received_bytes = c.received_bytes.read();
  f.passed = c.passed.read();
  f.forwarded = c.forwarded.read();
  f.held = c.held.read();
  f.sent = c.sent.read();
  f.sent_bytes = c.sent_bytes.read();
  f.send_dropped = c.send_dropped.read();
  f.send_no_mbuf = c.send_no_mbuf.read();
  f.transmit_refused = c.transmit_refused.read();
  f.contexts = c.contexts.read();
  f.held_bytes = c.held_bytes.read();
  f.requests = c.requests.read();
  f.responses = c.responses.read();
  f.statuses = c.statuses.read();
  f.cache_hits = c.cache_hits.read();
  f.polls = c.polls.read();
  f.idle_polls = c.idle_polls.read();
  f.busy_ns = c.busy_ns.read();
  f.dropped.resize(net::kNumDropReasons);
  for (size_t i = 0; i < f.dropped.size(); ++i) f.dropped[i] = c.dropped[i].read();
  return f;
}

uint64_t WorkerFigures::total_dropped() const {
  return net::sum_of(dropped, net::DropClass::kDropped);
}

uint64_t WorkerFigures::total_repeated() const {
  return net::sum_of(dropped, net::DropClass::kRepeated);
}

WorkerFigures& WorkerFigures::operator+=(const WorkerFigures& other) {
  received += other.received;
  received_bytes += other.received_bytes;
  passed += other.passed;
  forwarded += other.forwarded;
  held += other.held;
  sent += other.sent;
  sent_bytes += other.sent_bytes;
  send_dropped += other.send_dropped;
  send_no_mbuf += other.send_no_mbuf;
  transmit_refused += other.transmit_refused;
  contexts += other.contexts;
  held_bytes += other.held_bytes;
  requests += other.requests;
  responses += other.responses;
  statuses += other.statuses;
  cache_hits += other.cache_hits;
  polls += other.polls;
  idle_polls += other.idle_polls;
  busy_ns += other.busy_ns;
  dropped.resize(net::kNumDropReasons);
  for (size_t i = 0; i < other.dropped.size(); ++i) dropped[i] += other.dropped[i];
  return *this;
}

WorkerFigures total_figures(Workers workers) {
  WorkerFigures sum;
  for (const auto& worker : workers) sum += worker_figures(*worker);
  return sum;
}

telemetry::StageHistograms::Set stage_histograms(Workers workers) {
  telemetry::StageHistograms::Set set;
  for (const auto& worker : workers) worker->stages().merge_into(set);
  return set;
}

}  // namespace itif::pipeline
