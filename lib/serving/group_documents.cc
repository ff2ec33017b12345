// The documents about groups: their figures, planners and measured costs.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "serving/appliance_documents.h"

namespace itif::serving {

using nlohmann::json;

namespace {

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

json ApplianceDocuments::groups() const {
  json list = json::array();
  std::map<std::string, GroupReport> reports;
  for (GroupReport& report : watch_.read()) reports[report.name] = std::move(report);
  for (const GroupInfo& g : service_.groups()) {
    const GroupReport& recent = reports[g.name];
    list.push_back({{"name", g.name},
                    {"backbone", g.backbone},
                    {"device", g.device},
                    {"dtype", compute_name(g.compute)},
                    {"tenants", g.tenant_names},
                    {"slots", g.max_tenants},
                    {"slots_used", g.used_slots},
                    {"weight_bytes", g.weight_bytes},
                    {"workspace_bytes", g.workspace_bytes},
                    {"requests_waiting", g.waiting},
                    {"requests_executing", g.executing},
                    {"scheduler", g.scheduler},
                    {"planner", g.planner},
                    {"share_percent", g.share.percent},
                    {"cpus", g.own_cpus.empty() ? json() : json(g.own_cpus)},
                    {"weight", g.share.weight},
                    {"demand_percent", g.share.demand > 0 ? json(g.share.demand) : json()},
                    {"max_batch_tokens", g.max_batch_tokens},
                    {"batches", g.batches},
                    {"requests", g.requests},
                    {"tokens", g.tokens},
                    {"rows", g.rows},
                    {"refused", g.refused},
                    {"mean_batch_requests", ratio(g.requests, g.batches)},
                    {"mean_batch_tokens", ratio(g.tokens, g.batches)},
                    {"mean_batch_tenants", ratio(g.tenants, g.batches)},
                    {"busy_s", static_cast<double>(g.busy_ns) * 1e-9},
                    {"turn_wait_s", static_cast<double>(g.turn_wait_ns) * 1e-9},
                    {"requests_per_s", recent.requests_per_s},
                    {"latency_ns", static_cast<uint64_t>(recent.latency_ns)},
                    {"batch_ns", static_cast<uint64_t>(recent.batch_ns)},
                    {"gue", recent.gue},
                    {"device_failed", g.device_failed}});
    if (g.keeps_graphs) {
      list.back()["graphs"] = g.graphs;
      list.back()["graph_launches"] = g.graph_launches;
      list.back()["graph_failures"] = g.graph_failures;
      list.back()["refused_gemms"] = g.refused_gemms;
    }
    if (g.kv_blocks > 0) {
      list.back()["kv_blocks"] = g.kv_blocks;
      list.back()["kv_blocks_used"] = g.kv_blocks_used;
      list.back()["kv_blocks_reserved"] = g.kv_blocks_reserved;
    }
  }
  return {{"groups", std::move(list)}};
}

Result<json> ApplianceDocuments::planner(const std::string& group) const {
  ITIF_ASSIGN(const auto planned, service_.planned_batches(group));
  json batches = json::array();
  for (const runtime::BatchFigures& batch : planned.batches) {
    json offers = json::array();
    for (const plan::Offer& offer : std::span(batch.offers).first(batch.num_offers))
      offers.push_back({{"planner", offer.planner}, {"predicted_ns", offer.price_ns}});
    batches.push_back({{"requests", batch.num_requests},
                       {"tokens", batch.num_tokens},
                       {"rows", batch.num_rows},
                       {"planner", batch.planner},
                       {"execute_ns", batch.execute_ns},
                       {"offers", std::move(offers)}});
  }
  return json{{"group", group}, {"planner", planned.planner}, {"batches", std::move(batches)}};
}

Result<json> ApplianceDocuments::knee(const std::string& group,
                                      std::optional<uint64_t> threshold_percent) const {
  ITIF_ASSIGN(const auto profile, service_.knee(group));
  const double threshold = threshold_percent ? static_cast<double>(*threshold_percent) / 100
                                             : slice::KneeProfile::kThreshold;
  json batches = json::array();
  for (const slice::BatchCurve& curve : profile->curves) {
    json points = json::array();
    for (const slice::SharePoint& point : curve.points)
      points.push_back({{"percent", point.percent}, {"requests_per_s", point.throughput}});
    batches.push_back({{"requests", curve.requests},
                       {"tokens", curve.tokens},
                       {"knee_percent", slice::knee_percent(curve.points, threshold)},
                       {"points", std::move(points)}});
  }
  return json{{"group", group},
              {"device", profile->device},
              {"backbone", profile->backbone},
              {"threshold_percent", threshold * 100},
              {"knee_percent", profile->knee_percent(threshold)},
              {"batches", std::move(batches)}};
}

Result<json> ApplianceDocuments::profile(const std::string& group) const {
  ITIF_ASSIGN(const auto tables, service_.profile(group));
  json gemm = json::array(), batched = json::array();
  const size_t batches = tables->batches.size(), sizes = tables->sizes.size();
  for (size_t l = 0; l < tables->lengths.size(); ++l) {
    const auto row = tables->gemm_ns.begin() + static_cast<ptrdiff_t>(l * batches);
    gemm.push_back(std::vector<double>(row, row + static_cast<ptrdiff_t>(batches)));
    json by_count = json::array();
    for (size_t c = 0; c < tables->counts.size(); ++c) {
      const auto costs = tables->batched_gemm_ns.begin() +
                         static_cast<ptrdiff_t>((l * tables->counts.size() + c) * sizes);
      by_count.push_back(std::vector<double>(costs, costs + static_cast<ptrdiff_t>(sizes)));
    }
    batched.push_back(std::move(by_count));
  }
  json shared = json::array();
  for (const plan::SharedGemm& shape : tables->shared_gemms) {
    const auto by_count = [&](const std::vector<double>& costs) {
      json rows = json::array();
      const size_t columns = tables->range_rows.size();
      for (size_t at = 0; at < costs.size(); at += columns)
        rows.push_back(std::vector<double>(costs.begin() + static_cast<ptrdiff_t>(at),
                                           costs.begin() + static_cast<ptrdiff_t>(at + columns)));
      return rows;
    };
    json& document =
        shared.emplace_back(json{{"n", shape.n}, {"k", shape.k}, {"times", shape.times}});
    for (const plan::SharedGemmTable& table : plan::kSharedGemmTables)
      if (const auto& costs = shape.*table.costs_ns; !costs.empty())
        document[table.name] = by_count(costs);
  }
  return json{{"group", group},
              {"device", tables->device},
              {"backbone", tables->backbone},
              {"lengths", tables->lengths},
              {"batches", tables->batches},
              {"gemm_ns", std::move(gemm)},
              {"counts", tables->counts},
              {"sizes", tables->sizes},
              {"batched_gemm_ns", std::move(batched)},
              {"other_row_ns", tables->other_row_ns},
              {"launch_ns", tables->launch_ns},
              {"range_counts", tables->range_counts},
              {"range_rows", tables->range_rows},
              {"shared_gemms", std::move(shared)}};
}

}  // namespace itif::serving
