// A bench's rows as Markdown tables in the thesis's layout: a line a case, a column a mode, ours beside
// the thesis's.
#pragma once

#include <string>

#include "results.h"

namespace itif::bench {

// One table a unit. Modes stand beside each other where a case's modes share their limit (or have none);
// else each row is a line of its own. Speed-ups (unit "times") join the first table if its cases are
// theirs, as the thesis's column "IMP.".
std::string markdown_tables(const Results& results);

// "13.51", "2,298": as many digits as the measurement is worth.
std::string figure_text(double value);

}  // namespace itif::bench
