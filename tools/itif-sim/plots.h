// Draws figures with gnuplot: NAME.svg, beside its data and script.
#pragma once

#include <string>

#include "base/error.h"
#include "report/figure.h"

namespace itif::sim {

// Creates the directory and checks that files can be written in it: call it before a long run.
// Errors: kPermission, kResourceExhausted; the message names `directory`.
Status make_writable(const std::string& directory);
// Creates the directory. Errors: kPermission, kResourceExhausted, kNotFound (no gnuplot).
Status draw(const bench::Figure& figure, const std::string& directory);

}  // namespace itif::sim
