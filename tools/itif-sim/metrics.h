// Figures of a run by name, for tables and curves.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "sim/simulation.h"

namespace itif::sim {

struct Metric {
  std::string_view name, label;  // the label names the unit
  double (*of)(const Results&);
};

std::span<const Metric> metrics() noexcept;
// "throughput, goodput, …"
std::string metric_names();
// Errors: kInvalidArgument: no such metric; lists the names.
Result<const Metric*> find_metric(std::string_view name);

}  // namespace itif::sim
