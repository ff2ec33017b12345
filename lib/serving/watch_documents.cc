// The documents about the stages of requests: per tenant, of single requests, and what limits each
// group.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "pipeline/figures.h"
#include "serving/appliance_documents.h"

namespace itif::serving {

using nlohmann::json;

namespace {

constexpr uint32_t kTracePage = 256;  // requests per answer

struct Point {
  const char* name;
  uint64_t request::Times::*at;
};
constexpr Point kPoints[] = {
    {"last_piece", &request::Times::complete_ns}, {"verified", &request::Times::verified_ns},
    {"free", &request::Times::free_ns},           {"queued", &request::Times::queued_ns},
    {"chosen", &request::Times::chosen_ns},       {"planned", &request::Times::planned_ns},
    {"launched", &request::Times::launched_ns},   {"computed", &request::Times::done_ns},
    {"first_out", &request::Times::first_out_ns}, {"last_out", &request::Times::last_out_ns}};

json traced(const pipeline::TracedRequest& r) {
  json points = json::array();
  for (const Point& point : kPoints) {
    const uint64_t at_ns = r.times.*point.at;
    if (at_ns == 0) continue;
    const bool was_refused = point.at == &request::Times::done_ns && r.times.chosen_ns == 0;
    points.push_back({{"point", was_refused ? "refused" : point.name},
                      {"since_ns", at_ns - std::min(at_ns, r.times.arrival_ns)}});
  }
  return {{"request_id", r.request_id},
          {"session", r.session},
          {"worker", r.worker},
          {"tokens", r.num_tokens},
          {"status", wire::status_name(r.status)},
          {"arrival_ns", r.times.arrival_ns},
          {"points", std::move(points)}};
}

std::unexpected<Error> not_stamped() {
  return fail(Code::kUnsupported,
              "this itifd does not stamp the stages of requests: set telemetry.stages = true and "
              "restart it");
}

}  // namespace

bool ApplianceDocuments::stamps_stages() const {
  return pipeline_.workers().front()->options().stamps_stages;
}

Result<TenantInfo> ApplianceDocuments::find_tenant(uint32_t id) const {
  for (TenantInfo& info : service_.list())
    if (info.record.id == id) return std::move(info);
  return fail(Code::kNotFound, fmt::format("there is no tenant {}", id));
}

Result<json> ApplianceDocuments::tenant_stages(uint32_t id) const {
  ITIF_ASSIGN(const TenantInfo info, find_tenant(id));
  if (!stamps_stages()) return not_stamped();
  pipeline::StageFigures figures = pipeline::tenant_stages(pipeline_.workers(), info.index);
  if (info.stages_before) figures -= *info.stages_before;
  json stages = json::array();
  const uint64_t num_requests = figures.sums.num_requests;
  for (size_t i = 0; i < figures.counts.size(); ++i) {
    const auto percentile = [&](double percent) {
      return pipeline::TenantLatencyTable::percentile(figures.counts[i], percent);
    };
    stages.push_back({{"stage", telemetry::stage_name(static_cast<telemetry::Stage>(i))},
                      {"mean_ns", num_requests == 0 ? 0 : figures.sums.ns[i] / num_requests},
                      {"p50_ns", percentile(50)},
                      {"p99_ns", percentile(99)}});
  }
  return json{{"id", info.record.id},
              {"name", info.record.name},
              {"requests", num_requests},
              {"stages", std::move(stages)}};
}

Result<json> ApplianceDocuments::bottleneck(const std::string& group, uint64_t interval_ns) const {
  json list = json::array();
  for (const GroupReport& r : watch_.read(interval_ns)) {
    if (!group.empty() && r.name != group) continue;
    const telemetry::GroupLoad& load = r.load;
    json refused = json::object();
    for (const telemetry::RefusalRule& rule : telemetry::kRefusalRules)
      refused[rule.name] = load.refused[rule.cause];
    list.push_back({{"name", r.name},
                    {"limit", telemetry::limit_name(r.verdict.limit)},
                    {"because", r.verdict.because},
                    {"interval_ns", static_cast<uint64_t>(load.interval_s * 1e9)},
                    {"answered", load.answered},
                    {"requests_per_s", r.requests_per_s},
                    {"latency_ns", static_cast<uint64_t>(r.latency_ns)},
                    {"batch_ns", static_cast<uint64_t>(r.batch_ns)},
                    {"gue", r.gue},
                    {"overloaded", load.overloaded},
                    {"late", load.late},
                    {"arrived_late", load.arrived_late},
                    {"refused", std::move(refused)},
                    {"refused_per_s", r.refused_per_s},
                    {"waiting", load.waiting},
                    {"received_datagrams", load.received_datagrams},
                    {"lost_datagrams", load.lost_datagrams},
                    {"worker_busy", load.worker_busy},
                    {"device_busy", load.device_busy},
                    {"turn_wait", load.turn_wait},
                    {"intake_busy", load.intake_busy},
                    {"share_percent", r.share_percent},
                    {"batch_fullness", load.batch_fullness},
                    {"stages", load.has_stages},
                    {"arrive_ns", static_cast<uint64_t>(load.arrive_ns)},
                    {"intake_ns", static_cast<uint64_t>(load.intake_ns)},
                    {"queue_ns", static_cast<uint64_t>(load.queue_ns)},
                    {"compute_ns", static_cast<uint64_t>(load.compute_ns)},
                    {"send_ns", static_cast<uint64_t>(load.send_ns)},
                    {"total_ns", static_cast<uint64_t>(load.total_ns)}});
  }
  if (!group.empty() && list.empty())
    return fail(Code::kNotFound, fmt::format("there is no group '{}'", group));
  return json{{"groups", std::move(list)}};
}

Result<json> ApplianceDocuments::start_trace(uint32_t id, uint32_t requests) const {
  ITIF_ASSIGN(const TenantInfo info, find_tenant(id));
  if (!stamps_stages()) return not_stamped();
  ITIF_ASSIGN(const uint32_t trace, pipeline_.shared().tracer.start(info.record.id, requests));
  return json{{"trace", trace}, {"id", info.record.id}, {"name", info.record.name}};
}

Result<json> ApplianceDocuments::trace(uint32_t trace, uint32_t first) const {
  ITIF_ASSIGN(const pipeline::Tracer::Reading reading,
              pipeline_.shared().tracer.read(trace, first, kTracePage));
  json requests = json::array();
  for (const pipeline::TracedRequest& request : reading.requests)
    requests.push_back(traced(request));
  return json{{"trace", trace},
              {"id", reading.tenant_id},
              {"wanted", reading.wanted},
              {"removed", !find_tenant(reading.tenant_id)},
              {"requests", std::move(requests)}};
}

Result<json> ApplianceDocuments::stop_trace(uint32_t trace) const {
  ITIF_TRY(pipeline_.shared().tracer.stop(trace));
  return json::object();
}

}  // namespace itif::serving
