// The report of a run of all benches: Markdown with tables and, if gnuplot is installed, plots.
#pragma once

#include <span>
#include <string>

#include "report/figures.h"
#include "report/results.h"

namespace itif::bench {

// One bench's heading, tables and notes, without plots.
std::string markdown_section(const Results& results);

// drawn: each figure has an SVG and a PNG file; otherwise `no_plots` says why not.
std::string markdown_report(const std::string& command, std::span<const Results> all,
                            std::span<const Figure> figures, bool drawn,
                            const std::string& no_plots);

}  // namespace itif::bench
