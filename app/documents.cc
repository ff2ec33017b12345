// The documents that control shows (lib/control/appliance.h gives their fields).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "appliance.h"
#include "net/drop_reason.h"
#include "net/transmit.h"
#include "pipeline/figures.h"

namespace itif::app {

using nlohmann::json;

namespace {

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

json drop_counts(const pipeline::WorkerFigures& figures) {
  json counts = json::object();
  for (size_t i = 0; i < figures.dropped.size(); ++i)
    if (figures.dropped[i] > 0)
      counts[std::string(net::drop_reason_name(static_cast<net::DropReason>(i)))] =
          figures.dropped[i];
  return counts;
}

json identity(const pipeline::WorkerFigures& figures) {
  return {{"received", figures.received},
          {"forwarded", figures.forwarded},
          {"held", figures.held},
          {"dropped", drop_counts(figures)}};
}

json percentiles(const Histogram& ns) {
  return {{"count", ns.count()},
          {"p50_us", static_cast<double>(ns.percentile(50)) / 1e3},
          {"p99_us", static_cast<double>(ns.percentile(99)) / 1e3},
          {"p999_us", static_cast<double>(ns.percentile(99.9)) / 1e3},
          {"max_us", static_cast<double>(ns.max()) / 1e3}};
}

json tenant_stats(const pipeline::TenantEntry& entry, const pipeline::TenantFigures& f) {
  const auto us = [&](double percent) {
    return static_cast<double>(pipeline::TenantLatencyTable::percentile(f.latency, percent)) / 1e3;
  };
  return {{"id", entry.settings.id},
          {"name", entry.settings.name},
          {"group", entry.group},
          {"state", entry.settings.state == tenant::State::kServing ? "serving" : "paused"},
          {"datagrams", f.datagrams},
          {"requests", f.requests},
          {"responses", f.responses},
          {"statuses", f.statuses},
          {"dropped", f.dropped},
          {"quota_refused", f.quota_refused},
          {"deadline_missed", f.deadline_missed},
          {"tokens", f.tokens},
          {"p50_us", us(50)},
          {"p99_us", us(99)},
          {"p999_us", us(99.9)}};
}

std::string bare_address(const std::string& with_prefix) {
  return with_prefix.substr(0, with_prefix.find('/'));
}

}  // namespace

json LocalAppliance::groups() const {
  json list = json::array();
  for (const pipeline::GroupEntry& g : directory_.groups()) {
    list.push_back({{"name", g.name},
                    {"backbone", g.backbone},
                    {"tenants", g.num_tenants},
                    {"max_tenants", g.max_tenants},
                    {"weight_bytes", g.weight_bytes},
                    {"workspace_bytes", g.workspace_bytes},
                    {"queued", g.queued},
                    {"batches", g.batches},
                    {"requests", g.requests},
                    {"tokens", g.tokens},
                    {"refused", g.refused},
                    {"mean_batch_requests", ratio(g.requests, g.batches)},
                    {"mean_batch_tokens", ratio(g.tokens, g.batches)},
                    {"mean_batch_tenants", ratio(g.tenants, g.batches)},
                    {"busy_s", static_cast<double>(g.busy_ns) * 1e-9},
                    {"device_failed", g.device_failed}});
  }
  return list;
}

json LocalAppliance::stats() const {
  const pipeline::WorkerFigures total = pipeline::total_figures(pipeline_.workers());
  json document = {{"uptime_s", uptime_s()},
                   {"total",
                    {{"received", total.received},
                     {"received_bytes", total.received_bytes},
                     {"forwarded", total.forwarded},
                     {"held", total.held},
                     {"dropped", total.total_dropped()},
                     {"sent", total.sent},
                     {"sent_bytes", total.sent_bytes},
                     {"send_dropped", total.send_dropped},
                     {"contexts", total.contexts},
                     {"held_bytes", total.held_bytes},
                     {"requests", total.requests},
                     {"responses", total.responses},
                     {"statuses", total.statuses},
                     {"cache_hits", total.cache_hits},
                     {"in_flight", directory_.in_flight()}}}};
  const telemetry::StageHistograms::Set stages = pipeline::stage_histograms(pipeline_.workers());
  for (size_t i = 0; i < stages.size(); ++i)
    document["stages"][telemetry::stage_name(static_cast<telemetry::Stage>(i))] =
        percentiles(stages[i]);
  document["tenants"] = json::array();
  for (const pipeline::TenantEntry& entry : directory_.list()) {
    pipeline::TenantFigures figures = pipeline::tenant_figures(pipeline_.workers(), entry.index);
    figures -= entry.before;
    document["tenants"].push_back(tenant_stats(entry, figures));
  }
  return document;
}

json LocalAppliance::drops() const {
  json document = {{"workers", json::array()}, {"ports", json::array()}};
  for (const auto& worker : pipeline_.workers()) {
    json row = identity(pipeline::worker_figures(*worker));
    row["worker"] = worker->options().id;
    row["port"] = worker->port().info().device;
    row["queue"] = worker->options().queue;
    document["workers"].push_back(std::move(row));
  }
  document["total"] = identity(pipeline::total_figures(pipeline_.workers()));
  for (const auto& port : pipeline_.ports()) {
    const net::PortStats stats = port->stats();
    document["ports"].push_back({{"device", port->info().device},
                                 {"rx_packets", stats.rx_packets},
                                 {"rx_missed", stats.rx_missed},
                                 {"rx_no_mbuf", stats.rx_no_mbuf},
                                 {"rx_errors", stats.rx_errors},
                                 {"tx_packets", stats.tx_packets},
                                 {"tx_errors", stats.tx_errors}});
  }
  return document;
}

json LocalAppliance::device() const {
  const device::DeviceInfo& info = device_.info();
  return {{"kind", info.kind},
          {"dtype", dtype_name(info.compute)},
          {"description", info.description},
          {"threads", info.num_threads},
          {"memory_bytes", info.memory_bytes}};
}

json LocalAppliance::health() const {
  json ports = json::array();
  for (size_t i = 0; i < pipeline_.ports().size(); ++i) {
    const net::Port& port = *pipeline_.ports()[i];
    const net::Link link = port.link();
    json addresses = json::array();
    for (const std::string& address : config_.ports[i].ipv4) addresses.push_back(address);
    for (const std::string& address : config_.ports[i].ipv6) addresses.push_back(address);
    ports.push_back({{"device", port.info().device},
                     {"driver", port.info().driver},
                     {"mac", net::format_mac(port.info().mac)},
                     {"link_up", link.up},
                     {"speed_mbps", link.speed_mbps},
                     {"mtu", port.info().mtu},
                     {"addresses", std::move(addresses)}});
  }
  return {{"state", directory_.draining() ? "draining" : "serving"},
          {"uptime_s", uptime_s()},
          {"in_flight", directory_.in_flight()},
          {"tenants", directory_.list().size()},
          {"workers", pipeline_.workers().size()},
          {"polling", config_.data_plane.polling},
          {"ports", std::move(ports)}};
}

json LocalAppliance::data_address() const {
  const config::Port& port = config_.ports.front();
  const bool has_ipv4 = !port.ipv4.empty();
  const std::string address = has_ipv4            ? port.ipv4.front()
                              : port.ipv6.empty() ? std::string()
                                                  : port.ipv6.front();
  return {{"address", bare_address(address)},
          {"port", port.udp_port},
          {"fragment_bytes", net::fragment_bytes_for(port.path_mtu != 0 ? port.path_mtu : port.mtu,
                                                     has_ipv4 ? 4 : 6, wire::Auth::kFull)}};
}

}  // namespace itif::app
