// Draws latency against the rate of a sweep, with gnuplot.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "report/figure.h"
#include "trial.h"

namespace itif::loadgen {

// Two panels over the rate: percentiles of the latency in ms, and the requests without an answer in
// time in percent. name: base name of the figure's files.
bench::Figure sweep_figure(const std::vector<Trial>& trials, const std::string& name);

// Writes `path`, which ends with ".svg", and beside it the data and the script of gnuplot: FILE.dat
// and FILE.gp. Errors: kPermission, kResourceExhausted (a file cannot be written); kNotFound (no
// gnuplot), kInternal (it failed): data and script are written then.
Status plot_sweep(const std::vector<Trial>& trials, const std::string& path);
// Checks that the files of plot_sweep() can be written: call it before a long run. Errors:
// kPermission, kResourceExhausted.
Status check_plot_path(const std::string& path);

}  // namespace itif::loadgen
