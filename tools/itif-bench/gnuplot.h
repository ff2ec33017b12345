// Figures as gnuplot draws them: NAME.dat and NAME.gp, from which `gnuplot NAME.gp` draws NAME.svg and
// NAME.png again at any time.
#pragma once

#include <string>

#include "base/error.h"
#include "figures.h"

namespace itif::bench {

// A block a panel: x, then a column a series; "?" where nothing was measured.
std::string gnuplot_data(const Figure& figure);
std::string gnuplot_script(const Figure& figure);

// Writes both files to `directory`. Errors: kPermission, kResourceExhausted.
Status write_figure(const Figure& figure, const std::string& directory);
// Draws what write_figure() wrote. Errors: kNotFound, no such program (a path, or a name to be looked up);
// kInternal, it failed.
Status draw_figure(const Figure& figure, const std::string& directory,
                   const std::string& program = "gnuplot");

}  // namespace itif::bench
