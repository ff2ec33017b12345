#include "serving/metrics.h"

#include <span>

#include "base/log.h"
#include "net/drop_reason.h"
#include "net/mempool.h"
#include "pipeline/figures.h"

namespace itif::serving {
namespace {

using telemetry::add_sample;
using telemetry::counter_family;
using telemetry::gauge_family;

void add_drops(prometheus::MetricFamily& repeated, prometheus::MetricFamily& dropped,
               const telemetry::Label& label, std::span<const uint64_t> counts) {
  for (size_t i = 1; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const auto reason = static_cast<net::DropReason>(i);
    const bool is_repeat = net::drop_class(reason) == net::DropClass::kRepeated;
    add_sample(is_repeat ? repeated : dropped,
               {label, {"reason", std::string(net::drop_reason_name(reason))}},
               static_cast<double>(counts[i]));
  }
}

void add_workers(telemetry::Families& families, const pipeline::Pipeline& pipeline) {
  auto received = counter_family("itif_received_datagrams_total", "Frames taken from ports.");
  auto passed = counter_family("itif_passed_datagrams_total",
                               "Frames passed on to workers that share a port's queue.");
  auto forwarded =
      counter_family("itif_forwarded_datagrams_total", "Datagrams answered or used by a request.");
  auto held = gauge_family("itif_held_datagrams", "Datagrams that requests hold now.");
  auto repeated = counter_family("itif_repeated_datagrams_total",
                                 "Datagrams for requests or answers that the worker still has.");
  auto dropped = counter_family("itif_dropped_datagrams_total",
                                "Datagrams dropped, by reason. Repeats do not count.");
  auto sent = counter_family("itif_sent_datagrams_total", "Frames given to ports.");
  auto unsent = counter_family("itif_unsent_total", "Answers that could not be sent, by reason.");
  auto busy =
      counter_family("itif_worker_busy_seconds_total", "Time of a worker's polls that found work.");
  for (const auto& worker : pipeline.workers()) {
    const pipeline::WorkerFigures f = pipeline::worker_figures(*worker);
    const telemetry::Label label{"worker", std::to_string(worker->options().id)};
    add_sample(received, {label}, static_cast<double>(f.received));
    add_sample(passed, {label}, static_cast<double>(f.passed));
    add_sample(forwarded, {label}, static_cast<double>(f.forwarded));
    add_sample(held, {label}, static_cast<double>(f.held));
    add_sample(sent, {label}, static_cast<double>(f.sent));
    add_sample(busy, {label}, static_cast<double>(f.busy_ns) * 1e-9);
    add_sample(unsent, {label, {"reason", "port_full"}}, static_cast<double>(f.send_dropped));
    add_sample(unsent, {label, {"reason", "no_mbuf"}}, static_cast<double>(f.send_no_mbuf));
    add_sample(unsent, {label, {"reason", "transmit_full"}},
               static_cast<double>(f.transmit_refused));
    add_drops(repeated, dropped, label, f.dropped);
  }
  auto stages = telemetry::summary_family(
      "itif_stage_seconds",
      "Time of answered requests by stage. expire: from the deadline to the refusal.");
  const auto set = pipeline::stage_histograms(pipeline.workers());
  for (size_t i = 0; i < set.size(); ++i)
    telemetry::add_summary(
        stages, {{"stage", telemetry::stage_name(static_cast<telemetry::Stage>(i))}}, set[i]);
  for (auto* family :
       {&received, &passed, &forwarded, &held, &repeated, &dropped, &sent, &unsent, &busy, &stages})
    families.push_back(std::move(*family));
}

void add_ports(telemetry::Families& families, const pipeline::Pipeline& pipeline) {
  auto lost =
      counter_family("itif_port_lost_datagrams_total", "Frames that the port lost, by reason.");
  auto up = gauge_family("itif_port_link_up", "1 if the link is up.");
  auto mbufs =
      gauge_family("itif_port_mbufs_in_use", "Packet buffers of the port's pool that are in use.");
  for (size_t i = 0; i < pipeline.ports().size(); ++i) {
    const net::Port* port = pipeline.ports()[i].get();
    const net::PortStats stats = port->stats();
    const telemetry::Label label{"port", port->info().device};
    add_sample(mbufs, {label}, net::mbufs_in_use(*pipeline.pools()[i]));
    add_sample(lost, {label, {"reason", "rx_missed"}}, static_cast<double>(stats.rx_missed));
    add_sample(lost, {label, {"reason", "rx_no_mbuf"}}, static_cast<double>(stats.rx_no_mbuf));
    add_sample(lost, {label, {"reason", "rx_errors"}}, static_cast<double>(stats.rx_errors));
    add_sample(lost, {label, {"reason", "tx_errors"}}, static_cast<double>(stats.tx_errors));
    add_sample(up, {label}, port->link().up ? 1 : 0);
  }
  families.push_back(std::move(lost));
  families.push_back(std::move(up));
  families.push_back(std::move(mbufs));
}

void add_tenants(telemetry::Families& families, const pipeline::Pipeline& pipeline,
                 const TenantService& service) {
  auto requests = counter_family("itif_tenant_requests_total", "Requests accepted.");
  auto responses =
      counter_family("itif_tenant_responses_total", "Requests that ended with a result.");
  auto statuses =
      counter_family("itif_tenant_statuses_total", "Requests that ended with a status.");
  auto tokens = counter_family("itif_tenant_tokens_total", "Tokens computed.");
  auto late = counter_family("itif_tenant_missed_total",
                             "Requests past their deadline, or answered past the objective.");
  auto repeated = counter_family("itif_tenant_repeated_datagrams_total",
                                 "Datagrams of a tenant for requests or answers still known.");
  auto dropped = counter_family("itif_tenant_dropped_datagrams_total",
                                "Datagrams of a tenant dropped, by reason. Repeats do not count.");
  for (const TenantInfo& entry : service.list()) {
    pipeline::TenantFigures f = pipeline::tenant_figures(pipeline.workers(), entry.index);
    f -= entry.before;
    const telemetry::Label label{"tenant", entry.record.name};
    add_sample(requests, {label}, static_cast<double>(f.requests));
    add_sample(responses, {label}, static_cast<double>(f.responses));
    add_sample(statuses, {label}, static_cast<double>(f.total_statuses()));
    add_sample(tokens, {label}, static_cast<double>(f.tokens));
    add_sample(late, {label, {"what", "deadline"}}, static_cast<double>(f.deadline_missed));
    add_sample(late, {label, {"what", "slo"}}, static_cast<double>(f.slo_missed));
    add_drops(repeated, dropped, label, f.dropped);
  }
  for (auto* family : {&requests, &responses, &statuses, &tokens, &late, &repeated, &dropped})
    families.push_back(std::move(*family));
}

// Tenants that were answered, by stage. Empty with telemetry.stages = false.
void add_tenant_stages(telemetry::Families& families, const pipeline::Pipeline& pipeline,
                       const TenantService& service) {
  auto stages = telemetry::summary_family("itif_tenant_stage_seconds",
                                          "Time of a tenant's answered requests by stage.");
  for (const TenantInfo& entry : service.list()) {
    pipeline::StageFigures figures = pipeline::tenant_stages(pipeline.workers(), entry.index);
    if (entry.stages_before) figures -= *entry.stages_before;
    if (figures.sums.num_requests == 0) continue;
    for (size_t i = 0; i < figures.counts.size(); ++i) {
      prometheus::ClientMetric& metric = stages.metric.emplace_back();
      metric.label = {{"tenant", entry.record.name},
                      {"stage", telemetry::stage_name(static_cast<telemetry::Stage>(i))}};
      metric.summary.sample_count = figures.sums.num_requests;
      metric.summary.sample_sum = static_cast<double>(figures.sums.ns[i]) * 1e-9;
      for (const double percent : {50.0, 99.0}) {
        const uint64_t ns = pipeline::TenantLatencyTable::percentile(figures.counts[i], percent);
        metric.summary.quantile.push_back({percent / 100, static_cast<double>(ns) * 1e-9});
      }
    }
  }
  families.push_back(std::move(stages));
}

// The figures cover the time since the newest reading, of a scrape or of another caller, that is at
// least a second old.
void add_limits(telemetry::Families& families, GroupWatch& watch) {
  auto gue =
      gauge_family("itif_group_gue",
                   "Answers per second over the mean time of their batches in ms (GSLICE's GUE).");
  auto limits = gauge_family("itif_group_limit", "1 for what limits the group now.");
  for (const GroupReport& report : watch.read()) {
    add_sample(gue, {{"group", report.name}}, report.gue);
    for (const telemetry::Limit limit : telemetry::kLimits)
      add_sample(limits, {{"group", report.name}, {"limit", telemetry::limit_name(limit)}},
                 limit == report.verdict.limit ? 1 : 0);
  }
  families.push_back(std::move(gue));
  families.push_back(std::move(limits));
}

void add_groups(telemetry::Families& families, const TenantService& service) {
  auto batches = counter_family("itif_group_batches_total", "Batches run.");
  auto tokens = counter_family("itif_group_tokens_total", "Tokens in batches.");
  auto rows =
      counter_family("itif_group_rows_total", "Rows computed in batches: tokens and padding.");
  auto busy = counter_family("itif_group_busy_seconds_total", "Time spent in batches.");
  auto turns = counter_family("itif_group_turn_wait_seconds_total",
                              "Time that batches waited for the device's other groups.");
  auto queued = gauge_family("itif_group_queued_requests", "Requests waiting.");
  auto weights = gauge_family("itif_group_weight_bytes", "Device memory of all tenants' weights.");
  auto shared =
      gauge_family("itif_group_workspace_bytes", "Device memory that a group's tenants share.");
  auto blocks = gauge_family("itif_group_kv_blocks",
                             "K/V cache blocks: all, used, and reserved for running sequences.");
  auto graphs = gauge_family("itif_group_graphs", "CUDA graphs that a group keeps.");
  auto graph_launches =
      counter_family("itif_group_graph_launches_total", "Launches of a group's CUDA graphs.");
  auto graph_failures = counter_family("itif_group_graph_failures_total",
                                       "Captures of a group's CUDA graphs that failed.");
  auto refused_gemms =
      counter_family("itif_group_refused_gemms_total",
                     "Kinds of GEMM calls that cuBLAS refused and simpler calls replaced.");
  for (const GroupInfo& g : service.groups()) {
    const telemetry::Label label{"group", g.name};
    add_sample(batches, {label}, static_cast<double>(g.batches));
    add_sample(tokens, {label}, static_cast<double>(g.tokens));
    add_sample(rows, {label}, static_cast<double>(g.rows));
    add_sample(busy, {label}, static_cast<double>(g.busy_ns) * 1e-9);
    add_sample(turns, {label}, static_cast<double>(g.turn_wait_ns) * 1e-9);
    add_sample(queued, {label}, g.waiting);
    add_sample(weights, {label}, static_cast<double>(g.weight_bytes));
    add_sample(shared, {label}, static_cast<double>(g.workspace_bytes));
    if (g.keeps_graphs) {
      add_sample(graphs, {label}, static_cast<double>(g.graphs));
      add_sample(graph_launches, {label}, static_cast<double>(g.graph_launches));
      add_sample(graph_failures, {label}, static_cast<double>(g.graph_failures));
      add_sample(refused_gemms, {label}, static_cast<double>(g.refused_gemms));
    }
    if (g.kv_blocks == 0) continue;
    add_sample(blocks, {label, {"what", "all"}}, static_cast<double>(g.kv_blocks));
    add_sample(blocks, {label, {"what", "used"}}, static_cast<double>(g.kv_blocks_used));
    add_sample(blocks, {label, {"what", "reserved"}}, static_cast<double>(g.kv_blocks_reserved));
  }
  for (auto* family : {&batches, &tokens, &rows, &busy, &turns, &queued, &weights, &shared, &blocks,
                       &graphs, &graph_launches, &graph_failures, &refused_gemms})
    families.push_back(std::move(*family));
}

void add_process(telemetry::Families& families) {
  auto lost = counter_family("itif_lost_log_lines_total", "Lines of the log that are lost.");
  add_sample(lost, {}, static_cast<double>(log::lost_lines()));
  families.push_back(std::move(lost));
}

}  // namespace

telemetry::Families collect_metrics(const pipeline::Pipeline& pipeline,
                                    const TenantService& service, GroupWatch& watch) {
  telemetry::Families families;
  add_workers(families, pipeline);
  add_ports(families, pipeline);
  add_tenants(families, pipeline, service);
  add_tenant_stages(families, pipeline, service);
  add_groups(families, service);
  add_limits(families, watch);
  add_process(families);
  return families;
}

}  // namespace itif::serving
