#include "sim/parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>

namespace itif::sim {
namespace {

struct Parameter {
  double least = 0, most = 0;  // the ranges of scenario_file.cc
  bool is_whole = false;
  std::function<void(Scenario&, double)> set;
};

template <class Section, class Field>
Parameter field_of(Section Scenario::*section, Field Section::*field, double least, double most,
                   double unit = 1) {
  return {.least = least,
          .most = most,
          .is_whole = std::is_integral_v<Field> && unit == 1,
          .set = [=](Scenario& s, double v) { s.*section.*field = static_cast<Field>(v * unit); }};
}

void set_num_tenants(Scenario& s, double v) {
  const TenantChoice first = s.tenants.front();
  s.tenants.assign(static_cast<size_t>(v), first);
  for (size_t i = 0; i < s.tenants.size(); ++i) s.tenants[i].name = fmt::format("tenant{}", i + 1);
}

const std::map<std::string, Parameter>& parameters() {
  using config::Batching;
  constexpr double kTokens = kMaxRequestTokens, kHourMs = 3.6e6, kMs = 1e6;
  static const std::map<std::string, Parameter> all = {
      {"arrivals.rate", field_of(&Scenario::arrivals, &Arrivals::rate, 1e-6, 1e8)},
      {"arrivals.concurrency", field_of(&Scenario::arrivals, &Arrivals::concurrency, 1, 1u << 20)},
      {"arrivals.burst_factor", field_of(&Scenario::arrivals, &Arrivals::burst_factor, 1, 1e6)},
      {"arrivals.amplitude", field_of(&Scenario::arrivals, &Arrivals::amplitude, 0, 1)},
      {"batching.max_requests", field_of(&Scenario::batching, &Batching::max_requests, 1, 65536)},
      {"batching.max_tokens", field_of(&Scenario::batching, &Batching::max_tokens, 16, kTokens)},
      {"batching.queue_requests",
       field_of(&Scenario::batching, &Batching::queue_requests, 1, 1u << 20)},
      {"batching.max_beams", field_of(&Scenario::batching, &Batching::max_beams, 1, 4096)},
      {"lengths.mean", field_of(&Scenario::lengths, &Lengths::mean, 0, kTokens)},
      {"lengths.variance", field_of(&Scenario::lengths, &Lengths::variance, 0, 1e12)},
      {"lengths.from", field_of(&Scenario::lengths, &Lengths::from, 1, kTokens)},
      {"lengths.to", field_of(&Scenario::lengths, &Lengths::to, 1, kTokens)},
      {"output.mean", field_of(&Scenario::output, &Outputs::mean, 0, kTokens)},
      {"output.variance", field_of(&Scenario::output, &Outputs::variance, 0, 1e12)},
      {"output.from", field_of(&Scenario::output, &Outputs::from, 1, kTokens)},
      {"output.to", field_of(&Scenario::output, &Outputs::to, 1, kTokens)},
      {"deadlines.from_ms",
       field_of(&Scenario::deadlines, &Deadlines::from_ns, 1e-3, kHourMs, kMs)},
      {"deadlines.to_ms", field_of(&Scenario::deadlines, &Deadlines::to_ns, 1e-3, kHourMs, kMs)},
      {"link.loss", field_of(&Scenario::link, &LinkOptions::loss, 0, 1)},
      {"num_tenants", {.least = 1, .most = 4096, .is_whole = true, .set = set_num_tenants}},
      // Doubles hold all whole numbers up to 2^53.
      {"seed",
       {.least = 0,
        .most = 9007199254740992.0,
        .is_whole = true,
        .set = [](Scenario& s, double v) { s.seed = static_cast<uint64_t>(v); }}},
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
      return check(scenario);
    }
  const auto found = parameters().find(key);
  if (found == parameters().end()) {
    std::string keys = "batching.planner, batching.scheduler, batching.joining, batching.cleaning";
    for (const auto& [name, parameter] : parameters()) keys += ", " + name;
    return fail(Code::kInvalidArgument,
                fmt::format("'{}' cannot be varied; the parameters are: {}", key, keys));
  }
  const Parameter& parameter = found->second;
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (end == value.c_str() || *end != '\0')
    return fail(Code::kInvalidArgument, fmt::format("{}: '{}' is not a number", key, value));
  if (!(number >= parameter.least && number <= parameter.most))
    return fail(Code::kInvalidArgument, fmt::format("{}: {} is not between {} and {}", key, value,
                                                    parameter.least, parameter.most));
  if (parameter.is_whole && number != std::floor(number))
    return fail(Code::kInvalidArgument, fmt::format("{}: {} is not a whole number", key, value));
  parameter.set(scenario, number);
  return check(scenario);
}

}  // namespace itif::sim
