// Presents measurements as JSON, as tables, as a report in Markdown, and as figures.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "measurements.h"
#include "report/figures.h"

namespace itif::sim {

nlohmann::ordered_json to_json(const Scenario& scenario, std::span<const Measurement> all);
// A table per panel, for a terminal.
std::string to_tables(const Measurement& measurement);
// `command`: the command line.
std::string to_markdown(const std::string& command, const Scenario& scenario,
                        std::span<const Measurement> all);
bench::Figure to_figure(const Measurement& measurement);

}  // namespace itif::sim
