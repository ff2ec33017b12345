#include "serving/appliance_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "device/regained_memory.h"
#include "net/drop_reason.h"
#include "net/mempool.h"
#include "net/transmit.h"
#include "pipeline/figures.h"

namespace itif::serving {

using nlohmann::json;

namespace {

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

// Figures: of a worker, of all workers or of a tenant.
template <class Figures>
json drop_counts(const Figures& figures, net::DropClass wanted) {
  json counts = json::object();
  for (size_t i = 0; i < figures.dropped.size(); ++i) {
    const auto reason = static_cast<net::DropReason>(i);
    if (figures.dropped[i] > 0 && net::drop_class(reason) == wanted)
      counts[std::string(net::drop_reason_name(reason))] = figures.dropped[i];
  }
  return counts;
}

template <class Figures>
json identity(const Figures& figures) {
  return {{"received", figures.received},
          {"forwarded", figures.forwarded},
          {"held", figures.held},
          {"repeated", drop_counts(figures, net::DropClass::kRepeated)},
          {"dropped", drop_counts(figures, net::DropClass::kDropped)}};
}

json percentiles(const Histogram& ns) {
  return {{"count", ns.count()},
          {"p50_us", static_cast<double>(ns.percentile(50)) / 1e3},
          {"p99_us", static_cast<double>(ns.percentile(99)) / 1e3},
          {"p999_us", static_cast<double>(ns.percentile(99.9)) / 1e3},
          {"max_us", static_cast<double>(ns.max()) / 1e3}};
}

json refusals(const pipeline::TenantFigures& f) {
  json counts = json::object();
  for (size_t i = 0; i < f.statuses.size(); ++i)
    if (f.statuses[i] > 0)
      counts[wire::status_name(static_cast<wire::StatusCode>(i))] = f.statuses[i];
  return counts;
}

// `all`: since the start; `recent`: in the last interval.
json request_stats(const pipeline::TenantFigures& all, const pipeline::TenantFigures& recent,
                   uint64_t interval_ns, uint64_t in_flight) {
  const auto percentile = [&](double percent) {
    return pipeline::TenantLatencyTable::percentile(recent.latency, percent);
  };
  return {{"received", all.responses + all.total_statuses() + in_flight},
          {"answered", all.responses},
          {"refused", refusals(all)},
          {"in_flight", in_flight},
          {"requests_per_s", 1e9 * ratio(recent.responses, interval_ns)},
          {"p50_ns", percentile(50)},
          {"p99_ns", percentile(99)},
          {"p999_ns", percentile(99.9)},
          {"deadline_missed", all.deadline_missed},
          {"slo_missed", all.slo_missed}};
}

// How datagrams reach the workers of a port: by RSS or by the driver over its queues, and by
// software over workers that share a queue. Empty: it has one worker.
json spreading(const net::PortInfo& port, size_t num_workers) {
  json ways = json::array();
  if (port.num_queues > 1) ways.push_back(port.rss ? "rss" : "driver");
  if (num_workers > port.num_queues) ways.push_back("software");
  return ways;
}

// The name of the tenant's group; empty: its model is not loaded.
std::string group_of(const TenantInfo& entry) {
  return entry.model ? entry.model->group : "";
}

std::string bare_address(const std::string& with_prefix) {
  return with_prefix.substr(0, with_prefix.find('/'));
}

// The part of the device that a group's share is.
const char* shares_name(device::Division division) {
  switch (division) {
    case device::Division::kNone: return "none";
    case device::Division::kTime: return "time";
    case device::Division::kProcessors: return "processors";
    case device::Division::kPriority: return "priority";
  }
  return "?";
}

}  // namespace

ApplianceDocuments::ApplianceDocuments(const config::Config& config, const Clock& clock,
                                       const DeviceTable& devices, pipeline::Pipeline& pipeline,
                                       TenantService& service, GroupWatch& watch)
    : config_(config),
      clock_(clock),
      devices_(devices),
      pipeline_(pipeline),
      service_(service),
      watch_(watch),
      started_ns_(clock.now_ns()),
      window_(started_ns_) {}

double ApplianceDocuments::uptime_s() const {
  return static_cast<double>(clock_.now_ns() - started_ns_) * 1e-9;
}

json ApplianceDocuments::stats() const {
  const std::vector<TenantInfo> entries = service_.list();
  Window::Reading now;
  for (const TenantInfo& entry : entries) {
    pipeline::TenantFigures& figures = now[entry.record.id];
    figures = pipeline::tenant_figures(pipeline_.workers(), entry.index);
    figures -= entry.before;
  }
  const Window::Recent recent = window_.advance(clock_.now_ns(), now);
  json document = {
      {"uptime_s", uptime_s()}, {"interval_ns", recent.interval_ns}, {"tenants", json::array()}};
  pipeline::TenantFigures all, all_recent;
  uint64_t in_flight = 0;
  for (const TenantInfo& entry : entries) {
    const pipeline::TenantFigures& f = now[entry.record.id];
    const pipeline::TenantFigures& r = recent.since.at(entry.record.id);
    json row = request_stats(f, r, recent.interval_ns, entry.in_flight);
    row["id"] = entry.record.id;
    row["name"] = entry.record.name;
    row["group"] = group_of(entry);
    row["state"] = tenant::state_name(entry);
    row["datagrams"] = f.received;
    row["repeated"] = f.total_repeated();
    row["dropped"] = f.total_dropped();
    row["tokens"] = f.tokens;
    document["tenants"].push_back(std::move(row));
    all += f;
    all_recent += r;
    in_flight += entry.in_flight;
  }
  document["total"] = request_stats(all, all_recent, recent.interval_ns, in_flight);
  const pipeline::WorkerFigures total = pipeline::total_figures(pipeline_.workers());
  document["datagrams"] = {{"received", total.received},
                           {"received_bytes", total.received_bytes},
                           {"forwarded", total.forwarded},
                           {"held", total.held},
                           {"repeated", total.total_repeated()},
                           {"dropped", total.total_dropped()},
                           {"sent", total.sent},
                           {"sent_bytes", total.sent_bytes},
                           {"send_dropped", total.send_dropped},
                           {"send_no_mbuf", total.send_no_mbuf},
                           {"transmit_refused", total.transmit_refused},
                           {"contexts", total.contexts},
                           {"held_bytes", total.held_bytes},
                           {"cache_hits", total.cache_hits}};
  const telemetry::StageHistograms::Set stages = pipeline::stage_histograms(pipeline_.workers());
  for (size_t i = 0; i < stages.size(); ++i)
    document["stages"][telemetry::stage_name(static_cast<telemetry::Stage>(i))] =
        percentiles(stages[i]);
  document["lost_log_lines"] = log::lost_lines();
  return document;
}

json ApplianceDocuments::drops() const {
  json document = {{"workers", json::array()}, {"ports", json::array()}};
  for (const auto& worker : pipeline_.workers()) {
    const pipeline::WorkerFigures figures = pipeline::worker_figures(*worker);
    json row = identity(figures);
    row["worker"] = worker->options().id;
    row["port"] = worker->port().info().device;
    row["queue"] = worker->options().queue;
    row["passed"] = figures.passed;
    if (const pipeline::SpreadLane* lane = worker->options().owner_lane)
      row["fed_by"] = lane->owner();
    document["workers"].push_back(std::move(row));
  }
  document["tenants"] = json::array();
  for (const TenantInfo& entry : service_.list()) {
    pipeline::TenantFigures figures = pipeline::tenant_figures(pipeline_.workers(), entry.index);
    figures -= entry.before;
    json row = identity(figures);
    row["id"] = entry.record.id;
    row["name"] = entry.record.name;
    document["tenants"].push_back(std::move(row));
  }
  document["total"] = identity(pipeline::total_figures(pipeline_.workers()));
  uint64_t missed = 0;
  for (size_t i = 0; i < pipeline_.ports().size(); ++i) {
    const net::Port& port = *pipeline_.ports()[i];
    const net::PortStats stats = port.stats();
    missed += stats.rx_missed + stats.rx_no_mbuf;
    document["ports"].push_back({{"device", port.info().device},
                                 {"rx_packets", stats.rx_packets},
                                 {"rx_missed", stats.rx_missed},
                                 {"rx_no_mbuf", stats.rx_no_mbuf},
                                 {"rx_errors", stats.rx_errors},
                                 {"tx_packets", stats.tx_packets},
                                 {"tx_errors", stats.tx_errors},
                                 {"mbufs_in_use", net::mbufs_in_use(*pipeline_.pools()[i])}});
  }
  document["total"]["nic_missed"] = missed;
  return document;
}

json ApplianceDocuments::device() const {
  const device::DeviceInfo& info = devices_.preferred().info();
  const auto* regained = dynamic_cast<const device::RegainedMemory*>(&devices_.preferred());
  return {{"kind", info.kind},
          {"name", info.description},
          {"dtype", compute_name(info.compute)},
          {"threads", info.num_threads},
          {"memory_bytes", regained != nullptr ? regained->memory_bytes() : info.memory_bytes},
          {"available_bytes", devices_.preferred().available_bytes()},
          {"reason", info.reason},
          {"shares", shares_name(info.division)},
          {"slices", info.slices},
          {"slice_steps", info.slice_steps},
          {"state", devices_.uses_fallback() ? "failed" : "ok"}};
}

json ApplianceDocuments::health() const {
  json ports = json::array();
  for (size_t i = 0; i < pipeline_.ports().size(); ++i) {
    const net::Port& port = *pipeline_.ports()[i];
    const net::Link link = port.link();
    json addresses = json::array();
    for (const std::string& address : config_.ports[i].ipv4) addresses.push_back(address);
    for (const std::string& address : config_.ports[i].ipv6) addresses.push_back(address);
    const auto num_workers = static_cast<size_t>(std::ranges::count_if(
        pipeline_.workers(), [&](const auto& worker) { return &worker->port() == &port; }));
    ports.push_back({{"device", port.info().device},
                     {"driver", port.info().driver},
                     {"mac", net::format_mac(port.info().mac)},
                     {"link_up", link.up},
                     {"removed", link.removed},
                     {"speed_mbps", link.speed_mbps},
                     {"mtu", port.info().mtu},
                     {"queues", port.info().num_queues},
                     {"workers", num_workers},
                     {"spreading", spreading(port.info(), num_workers)},
                     {"offloads",
                      {{"rss", port.info().rss},
                       {"rx_checksums", port.info().rx_checksums},
                       {"tx_ipv4_checksum", port.info().tx_offloads.ipv4_checksum},
                       {"tx_udp_checksum", port.info().tx_offloads.udp_checksum}}},
                     {"addresses", std::move(addresses)}});
  }
  json problems = json::array();
  if (devices_.uses_fallback())
    problems.push_back(
        devices_.is_lost()
            ? "the device has failed and could not be reset: the CPU computes until `itifctl "
              "handover`, which loses no request, or a restart of itifd"
            : "the device has failed: the CPU computes until `itifctl device reset`, or `itifctl "
              "handover` if the device cannot be reset");
  for (const GroupInfo& g : service_.groups())
    if (g.device_failed) problems.push_back("the device of group " + g.name + " has failed");
  for (const json& port : ports)
    if (!port["link_up"])
      problems.push_back("port " + port["device"].get<std::string>() +
                         (port["removed"]
                              ? ": its interface was removed: make it, and restart itifd"
                              : ": link down"));
  const char* status = service_.draining() ? "draining" : problems.empty() ? "ok" : "degraded";
  return {{"status", status},
          {"problems", std::move(problems)},
          {"uptime_s", uptime_s()},
          {"in_flight", service_.in_flight()},
          {"tenants", service_.num_loaded()},
          {"workers", pipeline_.workers().size()},
          {"polling", config_.data_plane.polling},
          {"ports", std::move(ports)}};
}

json ApplianceDocuments::data_address() const {
  const config::Port& port = config_.ports.front();
  const bool has_ipv4 = !port.ipv4.empty();
  std::string address = has_ipv4 ? port.ipv4.front() : "";
  if (!has_ipv4 && !port.ipv6.empty()) address = port.ipv6.front();
  return {
      {"address", bare_address(address)},
      {"port", port.udp_port},
      {"fragment_bytes", net::fragment_bytes_for(pipeline_.workers().front()->options().path_mtu,
                                                 has_ipv4 ? 4 : 6, wire::Auth::kFull)}};
}

}  // namespace itif::serving
