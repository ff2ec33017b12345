// The report of a run of all benches, for people: Markdown with tables and, where gnuplot is, plots.
#pragma once

#include <span>
#include <string>

#include "figures.h"
#include "results.h"

namespace itif::bench {

// One bench's heading, tables and notes, without plots.
std::string markdown_section(const Results& results);

// `drawn`: there is an SVG and a PNG of each figure; else `no_plots` says why not.
std::string markdown_report(const std::string& command, std::span<const Results> all,
                            std::span<const Figure> figures, bool drawn,
                            const std::string& no_plots);

}  // namespace itif::bench
