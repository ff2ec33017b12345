#include "serving/dpdk_telemetry.h"

#include <fmt/format.h>
#include <rte_telemetry.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "net/drop_reason.h"
#include "pipeline/figures.h"

namespace itif::serving {
namespace {

// DPDK's callbacks take no context and cannot be unregistered, so their sources are global.
std::mutex sources_mutex;
const pipeline::Pipeline* source_pipeline = nullptr;
const TenantService* source_service = nullptr;

std::optional<uint32_t> number(const char* params) {
  if (params == nullptr) return std::nullopt;
  const std::string_view text(params);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void add(rte_tel_data* data, const char* name, uint64_t value) {
  rte_tel_data_add_dict_u64(data, name, value);
}

void add_figures(rte_tel_data* data, const pipeline::WorkerFigures& f) {
  add(data, "received", f.received);
  add(data, "received_bytes", f.received_bytes);
  add(data, "passed", f.passed);
  add(data, "forwarded", f.forwarded);
  add(data, "held", f.held);
  add(data, "repeated", f.total_repeated());
  add(data, "dropped", f.total_dropped());
  add(data, "sent", f.sent);
  add(data, "sent_bytes", f.sent_bytes);
  add(data, "send_dropped", f.send_dropped);
  add(data, "send_no_mbuf", f.send_no_mbuf);
  add(data, "transmit_refused", f.transmit_refused);
  add(data, "contexts", f.contexts);
  add(data, "held_bytes", f.held_bytes);
  add(data, "requests", f.requests);
  add(data, "responses", f.responses);
  add(data, "statuses", f.statuses);
  add(data, "cache_hits", f.cache_hits);
  add(data, "polls", f.polls);
  add(data, "idle_polls", f.idle_polls);
  add(data, "busy_ns", f.busy_ns);
}

int stats(const char*, const char*, rte_tel_data* data) {
  const std::lock_guard lock(sources_mutex);
  if (source_pipeline == nullptr) return -1;
  rte_tel_data_start_dict(data);
  add_figures(data, pipeline::total_figures(source_pipeline->workers()));
  return 0;
}

int worker(const char*, const char* params, rte_tel_data* data) {
  const std::lock_guard lock(sources_mutex);
  const std::optional<uint32_t> id = number(params);
  if (source_pipeline == nullptr || !id || *id >= source_pipeline->workers().size()) return -1;
  rte_tel_data_start_dict(data);
  add_figures(data, pipeline::worker_figures(*source_pipeline->workers()[*id]));
  return 0;
}

int add_reasons(rte_tel_data* data, net::DropClass wanted) {
  const std::lock_guard lock(sources_mutex);
  if (source_pipeline == nullptr) return -1;
  rte_tel_data_start_dict(data);
  const pipeline::WorkerFigures total = pipeline::total_figures(source_pipeline->workers());
  for (size_t i = 1; i < total.dropped.size(); ++i) {
    const auto reason = static_cast<net::DropReason>(i);
    if (total.dropped[i] > 0 && net::drop_class(reason) == wanted)
      add(data, std::string(net::drop_reason_name(reason)).c_str(), total.dropped[i]);
  }
  return 0;
}

int drops(const char*, const char*, rte_tel_data* data) {
  return add_reasons(data, net::DropClass::kDropped);
}

int repeats(const char*, const char*, rte_tel_data* data) {
  return add_reasons(data, net::DropClass::kRepeated);
}

// An array has a fixed capacity. Later ids are listed by giving a higher first id.
int tenants(const char*, const char* params, rte_tel_data* data) {
  const std::lock_guard lock(sources_mutex);
  const bool whole = params == nullptr || *params == '\0';
  const std::optional<uint32_t> first = whole ? 0 : number(params);
  if (source_service == nullptr || !first) return -1;
  std::vector<uint32_t> ids;
  for (const TenantInfo& entry : source_service->list())
    if (entry.record.id >= *first) ids.push_back(entry.record.id);
  std::ranges::sort(ids);
  rte_tel_data_start_array(data, RTE_TEL_U64_VAL);
  for (const uint32_t id : ids)
    if (rte_tel_data_add_array_u64(data, id) != 0) break;
  return 0;
}

int tenant(const char*, const char* params, rte_tel_data* data) {
  const std::lock_guard lock(sources_mutex);
  const std::optional<uint32_t> id = number(params);
  if (source_service == nullptr || !id) return -1;
  for (const TenantInfo& entry : source_service->list()) {
    if (entry.record.id != *id) continue;
    pipeline::TenantFigures f = pipeline::tenant_figures(source_pipeline->workers(), entry.index);
    f -= entry.before;
    rte_tel_data_start_dict(data);
    rte_tel_data_add_dict_string(data, "name", entry.record.name.c_str());
    rte_tel_data_add_dict_string(data, "group", entry.model ? entry.model->group.c_str() : "");
    add(data, "received", f.received);
    add(data, "forwarded", f.forwarded);
    add(data, "held", f.held);
    add(data, "repeated", f.total_repeated());
    add(data, "dropped", f.total_dropped());
    add(data, "requests", f.requests);
    add(data, "responses", f.responses);
    add(data, "statuses", f.total_statuses());
    add(data, "deadline_missed", f.deadline_missed);
    add(data, "slo_missed", f.slo_missed);
    add(data, "tokens", f.tokens);
    add(data, "p50_ns", pipeline::TenantLatencyTable::percentile(f.latency, 50));
    add(data, "p99_ns", pipeline::TenantLatencyTable::percentile(f.latency, 99));
    return 0;
  }
  return -1;
}

int stages(const char*, const char* params, rte_tel_data* data) {
  const std::lock_guard lock(sources_mutex);
  const std::optional<uint32_t> id = number(params);
  if (source_service == nullptr || !id) return -1;
  for (const TenantInfo& entry : source_service->list()) {
    if (entry.record.id != *id) continue;
    pipeline::StageFigures f = pipeline::tenant_stages(source_pipeline->workers(), entry.index);
    if (entry.stages_before) f -= *entry.stages_before;
    rte_tel_data_start_dict(data);
    add(data, "requests", f.sums.num_requests);
    for (size_t i = 0; i < f.counts.size(); ++i) {
      rte_tel_data* stage = rte_tel_data_alloc();
      if (stage == nullptr) return -1;
      rte_tel_data_start_dict(stage);
      add(stage, "sum_ns", f.sums.ns[i]);
      add(stage, "p50_ns", pipeline::TenantLatencyTable::percentile(f.counts[i], 50));
      add(stage, "p99_ns", pipeline::TenantLatencyTable::percentile(f.counts[i], 99));
      rte_tel_data_add_dict_container(data, telemetry::stage_name(static_cast<telemetry::Stage>(i)),
                                      stage, 0);
    }
    return 0;
  }
  return -1;
}

int groups(const char*, const char*, rte_tel_data* data) {
  const std::lock_guard lock(sources_mutex);
  if (source_service == nullptr) return -1;
  rte_tel_data_start_dict(data);
  for (const GroupInfo& g : source_service->groups()) {
    rte_tel_data* group = rte_tel_data_alloc();
    if (group == nullptr) return -1;
    rte_tel_data_start_dict(group);
    add(group, "tenants", g.tenant_names.size());
    add(group, "weight_bytes", g.weight_bytes);
    add(group, "workspace_bytes", g.workspace_bytes);
    add(group, "waiting", g.waiting);
    add(group, "batches", g.batches);
    add(group, "requests", g.requests);
    add(group, "tokens", g.tokens);
    add(group, "busy_ns", g.busy_ns);
    add(group, "turn_wait_ns", g.turn_wait_ns);
    // Dictionary names may contain only letters, digits, '_' and '/'. The number distinguishes
    // groups whose names differ in other characters.
    std::string name = fmt::format("{}_{}", g.number, g.name);
    for (char& c : name)
      if (!isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
    rte_tel_data_add_dict_container(data, name.c_str(), group, 0);
  }
  return 0;
}

}  // namespace

DpdkTelemetry::DpdkTelemetry(const pipeline::Pipeline& pipeline, const TenantService& service) {
  {
    const std::lock_guard lock(sources_mutex);
    source_pipeline = &pipeline;
    source_service = &service;
  }
  rte_telemetry_register_cmd("/itif/stats", stats, "Counters of all workers. No parameters");
  rte_telemetry_register_cmd("/itif/worker", worker, "Counters of a worker. Parameter: its number");
  rte_telemetry_register_cmd("/itif/drops", drops, "Dropped datagrams by reason. No parameters");
  rte_telemetry_register_cmd("/itif/repeats", repeats,
                             "Repeated datagrams by reason. No parameters");
  rte_telemetry_register_cmd(
      "/itif/tenants", tenants,
      "Ids of the tenants, ascending, at most 512. Parameter: the lowest id to list; default 0");
  rte_telemetry_register_cmd("/itif/tenant", tenant, "Figures of a tenant. Parameter: its id");
  rte_telemetry_register_cmd("/itif/stages", stages,
                             "Times of a tenant's requests by stage. Parameter: its id");
  rte_telemetry_register_cmd("/itif/groups", groups, "Figures of the groups. No parameters");
}

DpdkTelemetry::~DpdkTelemetry() {
  const std::lock_guard lock(sources_mutex);
  source_pipeline = nullptr;
  source_service = nullptr;
}

}  // namespace itif::serving
