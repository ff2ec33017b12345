#include "sim/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <utility>

namespace itif::sim {
namespace {

using Setter = std::function<void(Scenario&, double)>;
const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> all = {
      {"arrivals.rate", [](Scenario& s, double v) { s.arrivals.rate = v; }},
      {"arrivals.concurrency",
       [](Scenario& s, double v) { s.arrivals.concurrency = static_cast<uint32_t>(v); }},
      {"arrivals.burst_factor", [](Scenario& s, double v) { s.arrivals.burst_factor = v; }},
      {"arrivals.amplitude", [](Scenario& s, double v) { s.arrivals.amplitude = v; }},
      {"batching.max_requests",
       [](Scenario& s, double v) { s.batching.max_requests = static_cast<uint32_t>(v); }},
      {"batching.max_tokens",
       [](Scenario& s, double v) { s.batching.max_tokens = static_cast<uint32_t>(v); }},
      {"batching.queue_requests",
       [](Scenario& s, double v) { s.batching.queue_requests = static_cast<uint32_t>(v); }},
      {"lengths.mean", [](Scenario& s, double v) { s.lengths.mean = v; }},
      {"lengths.variance", [](Scenario& s, double v) { s.lengths.variance = v; }},
      {"lengths.from", [](Scenario& s, double v) { s.lengths.from = static_cast<uint32_t>(v); }},
      {"lengths.to", [](Scenario& s, double v) { s.lengths.to = static_cast<uint32_t>(v); }},
      {"batching.max_beams",
       [](Scenario& s, double v) { s.batching.max_beams = static_cast<uint32_t>(v); }},
      {"output.mean", [](Scenario& s, double v) { s.output.mean = v; }},
      {"output.variance", [](Scenario& s, double v) { s.output.variance = v; }},
      {"output.from", [](Scenario& s, double v) { s.output.from = static_cast<uint32_t>(v); }},
      {"output.to", [](Scenario& s, double v) { s.output.to = static_cast<uint32_t>(v); }},
      {"deadlines.from_ms",
       [](Scenario& s, double v) { s.deadlines.from_ns = static_cast<uint64_t>(v * 1e6); }},
      {"deadlines.to_ms",
       [](Scenario& s, double v) { s.deadlines.to_ns = static_cast<uint64_t>(v * 1e6); }},
      {"link.loss", [](Scenario& s, double v) { s.link.loss = v; }},
      {"num_tenants",
       [](Scenario& s, double v) {
         const TenantChoice first = s.tenants.front();
         s.tenants.assign(static_cast<size_t>(std::max(1.0, v)), first);
         for (size_t i = 0; i < s.tenants.size(); ++i)
           s.tenants[i].name = fmt::format("tenant{}", i + 1);
       }},
      {"seed", [](Scenario& s, double v) { s.seed = static_cast<uint64_t>(v); }},
  };
  return all;
}

}  // namespace

Status set_parameter(Scenario& scenario, const std::string& key, const std::string& value) {
  const std::pair<std::string_view, std::string config::Batching::*> texts[] = {
      {"batching.planner", &config::Batching::planner},
      {"batching.scheduler", &config::Batching::scheduler},
      {"batching.joining", &config::Batching::joining},
      {"batching.cleaning", &config::Batching::cleaning}};
  for (const auto& [name, field] : texts)
    if (key == name) {
      scenario.batching.*field = value;
      return {};
    }
  const auto found = setters().find(key);
  if (found == setters().end()) {
    std::string keys = "batching.planner, batching.scheduler, batching.joining, batching.cleaning";
    for (const auto& [name, setter] : setters()) keys += ", " + name;
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' cannot be varied; the parameters are: {}", key, keys));
  }
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (end == value.c_str() || *end != '\0' || !(number >= 0))
    return fail(Code::kInvalidArgument, fmt::format("{}: '{}' is not a number", key, value));
  found->second(scenario, number);
  return check(scenario);
}

}  // namespace itif::sim
