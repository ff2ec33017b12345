// The JSON document: the run's configuration and all figures, with units in the names.
#include <nlohmann/json.hpp>

#include "report.h"

namespace itif::loadgen {
namespace {

using Json = nlohmann::ordered_json;

Json histogram_json(const Histogram& h) {
  Json json;
  json["count"] = h.count();
  json["mean_us"] = h.mean() / 1e3;
  json["min_us"] = static_cast<double>(h.min()) / 1e3;
  for (const auto& [name, percent] : {std::pair{"p50_us", 50.0},
                                      {"p90_us", 90.0},
                                      {"p95_us", 95.0},
                                      {"p99_us", 99.0},
                                      {"p99_9_us", 99.9},
                                      {"p99_99_us", 99.99}})
    json[name] = static_cast<double>(h.percentile(percent)) / 1e3;
  json["max_us"] = static_cast<double>(h.max()) / 1e3;
  return json;
}

Json target_json(const Options& options, const TargetResults& r, double seconds) {
  Json json;
  json["sent"] = r.sent;
  json["answered"] = r.answered;
  json["in_time"] = r.in_time;
  json["in_time_share"] =
      r.sent > 0 ? static_cast<double>(r.in_time) / static_cast<double>(r.sent) : 0.0;
  json["utility"] = options.has_lengths() ? Json(r.utility) : Json();
  json["lost"] = r.lost;
  json["refused"] = r.refused;
  Json by = Json::object();
  for (size_t i = 0; i < r.refused_by.size(); ++i) {
    if (r.refused_by[i] > 0)
      by[wire::status_name(static_cast<wire::StatusCode>(i))] = r.refused_by[i];
  }
  json["refused_by_status"] = by;
  json["requests_per_s"] = seconds > 0 ? static_cast<double>(r.answered) / seconds : 0;
  json["latency"] = histogram_json(r.latency_ns);
  return json;
}

Json lengths_json(const Lengths& lengths) {
  switch (lengths.kind) {
    case Lengths::Kind::kFixed: return {{"kind", "fixed"}, {"tokens", lengths.first}};
    case Lengths::Kind::kUniform:
      return {{"kind", "uniform"}, {"from", lengths.first}, {"to", lengths.second}};
    case Lengths::Kind::kNormal:
      return {{"kind", "normal"}, {"mean", lengths.first}, {"deviation", lengths.second}};
  }
  return {};
}

Json deadlines_json(const Deadlines& deadlines) {
  switch (deadlines.kind) {
    case Deadlines::Kind::kNone: break;
    case Deadlines::Kind::kFixed: return {{"kind", "fixed"}, {"us", deadlines.first_us}};
    case Deadlines::Kind::kUniform:
      return {{"kind", "uniform"}, {"from_us", deadlines.first_us}, {"to_us", deadlines.second_us}};
    case Deadlines::Kind::kByLength:
      return {
          {"kind", "length"}, {"us", deadlines.first_us}, {"us_per_token", deadlines.second_us}};
  }
  return {{"kind", "none"}};
}

Json engine_json(const client::EngineStats& s) {
  Json json;
  json["datagrams_sent"] = s.datagrams_sent;
  json["bytes_sent"] = s.bytes_sent;
  json["datagrams_received"] = s.datagrams_received;
  json["bytes_received"] = s.bytes_received;
  json["retransmissions"] = s.retransmissions;
  json["silence_repeats"] = s.silence_repeats;
  json["busy_repeats"] = s.busy_repeats;
  json["token_refusals"] = s.token_refusals;
  json["hints"] = s.hints;
  json["resends_asked"] = s.resends_asked;
  json["resends_served"] = s.resends_served;
  json["busy"] = s.busy;
  json["hellos"] = s.hellos;
  json["tokens"] = s.tokens;
  json["send_blocked"] = s.send_blocked;
  Json dropped = Json::object();
  for (size_t i = 0; i < s.dropped.size(); ++i)
    dropped[client::drop_name(static_cast<client::Drop>(i))] = s.dropped[i];
  json["dropped"] = dropped;
  return json;
}

}  // namespace

Json configuration_json(const Options& o) {
  Json json;
  json["server"] = o.server;
  json["port"] = o.port;
  json["transport"] = o.null_sink ? "null" : o.eal_args.empty() ? "socket" : "dpdk";
  if (!o.eal_args.empty()) json["eal"] = o.eal_args;
  json["arrivals"] = arrivals_name(o.arrivals);
  if (o.arrivals == Arrivals::kClosed)
    json["concurrency"] = o.concurrency;
  else if (o.sweep.steps > 0)
    json["sweep"] = {{"from", o.sweep.from}, {"to", o.sweep.to}, {"steps", o.sweep.steps}};
  else if (o.goals.empty() || o.rate_given)
    json["rate"] = o.rate;
  if (!o.goals.empty()) {
    json["precision_percent"] = o.precision_percent;
    json["repeats"] = o.repeats;
  }
  json["duration_s"] = static_cast<double>(o.duration_ns) / 1e9;
  json["warmup_s"] = static_cast<double>(o.warmup_ns) / 1e9;
  json["drain_s"] = static_cast<double>(o.drain_ns) / 1e9;
  json["max_requests"] = o.max_requests;
  json["payload"] = wire::payload_kind_name(o.payload_kind);
  if (o.texts_file.empty()) {
    json["lengths"] = lengths_json(o.lengths);
    json["vocab"] = o.vocab;
  } else {
    json["texts"] = o.texts_file;
  }
  json["result"] = wire::result_kind_name(o.result_kind);
  json["fragment_bytes"] = o.fragment_bytes;
  json["budget"] = deadlines_json(o.deadlines);
  json["no_cache"] = (o.flags & wire::kFlagNoCache) != 0;
  json["truncate"] = (o.flags & wire::kFlagTruncate) != 0;
  json["tries"] = o.retry.max_tries;
  json["rto_ms"] = static_cast<double>(o.retry.initial_rto_ns) / 1e6;
  json["timeout_ms"] = static_cast<double>(o.retry.timeout_ns) / 1e6;
  json["refusal_retries"] = o.retry.max_refusal_retries;
  json["threads"] = o.threads;
  json["flows"] = o.flows;
  json["max_in_flight"] = o.max_in_flight;
  json["busy"] = o.busy;
  json["seed"] = o.seed;
  if (!o.pcap_file.empty()) {
    json["pcap"] = o.pcap_file;
    json["pcap_packets"] = o.pcap_packets;
  }
  return json;
}

Json to_json(const Options& options, const Results& results) {
  Json json;
  json["tool"] = "itif-loadgen";
  json["version"] = 1;
  json["configuration"] = configuration_json(options);
  json.update(results_json(options, results));
  return json;
}

Json results_json(const Options& options, const Results& results) {
  const double seconds = static_cast<double>(results.measured_ns) / 1e9;
  Json json;
  json["measured_s"] = seconds;
  json["all_answered"] = all_answered(results);
  json["total"] = target_json(options, results.total(), seconds);
  Json tenants = Json::array();
  for (size_t i = 0; i < options.targets.size(); ++i) {
    const Target& target = options.targets[i];
    Json tenant;
    tenant["name"] = target.name;
    tenant["id"] = target.credential.tenant_id;
    tenant["weight"] = target.weight;
    tenant.update(target_json(options, results.targets[i], seconds));
    tenants.push_back(std::move(tenant));
  }
  json["tenants"] = std::move(tenants);
  json["warmup_requests"] = results.warmup_requests;
  json["not_sent"] = results.unsent;
  json["dropped_here"] = results.dropped_here;
  json["asked_again"] = results.sent_again;
  json["server"] = histogram_json(results.server_ns);
  json["lateness"] = histogram_json(results.lateness_ns);
  json["refusal_delay"] = histogram_json(results.refusal_delay_ns);
  json["datagrams"] = engine_json(results.engine);
  return json;
}

}  // namespace itif::loadgen
