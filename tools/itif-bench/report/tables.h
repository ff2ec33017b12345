// Formats a bench's rows as Markdown tables in the thesis's layout: one line per case, one column
// per mode, the thesis's figure beside ours.
#pragma once

#include <string>

#include "report/results.h"

namespace itif::bench {

// One table per unit. Modes are columns if the modes of a case share a limit or have none;
// otherwise each row has its own line. Speed-ups (unit "times") become a column of the first table
// if it has the same cases, like the thesis's column "IMP.".
std::string markdown_tables(const Results& results);

}  // namespace itif::bench
