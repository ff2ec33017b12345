// The thesis's figures, and those that continue them, from the rows of a run of the benches.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results.h"

namespace itif::bench {

// One pair of axes: y of each series at each x.
struct Panel {
  enum class Kind { kLines, kBars };
  struct Line {
    std::string x;                         // a number, or the name under a group of bars
    std::vector<std::optional<double>> y;  // by series
  };
  std::string title = {}, x_label = {}, y_label = {};
  Kind kind = Kind::kLines;
  std::vector<std::string> series = {};
  std::vector<Line> lines = {};
};

struct Figure {
  std::string name;   // of its files: "figure-5.1-bf16"
  std::string title;  // "Figure 5.1: …"
  std::string bench;  // whose rows it shows
  std::vector<Panel> panels = {};
};

// Of each element type that was measured. What has no rows is left out: panels, figures.
std::vector<Figure> make_figures(std::span<const Results> all);

}  // namespace itif::bench
