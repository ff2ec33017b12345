// Writes figures for gnuplot: NAME.dat and NAME.gp. `gnuplot NAME.gp` draws NAME.svg and NAME.png
// from them.
#pragma once

#include <string>

#include "base/error.h"
#include "report/figure.h"

namespace itif::bench {

// One block per panel: a column of x, then one per series; "?" marks a missing value.
std::string gnuplot_data(const Figure& figure);
std::string gnuplot_script(const Figure& figure);

// Writes both files to `directory`. Errors: kPermission, kResourceExhausted.
Status write_figure(const Figure& figure, const std::string& directory);
// Draws the files of write_figure(). program: a path, or a name that is searched on PATH. Errors:
// kNotFound, no such program; kInternal, it failed.
Status draw_figure(const Figure& figure, const std::string& directory,
                   const std::string& program = "gnuplot");

}  // namespace itif::bench
