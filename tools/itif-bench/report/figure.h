// A figure of a report, as data.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace itif::bench {

// One pair of axes: the y of each series at each x.
struct Panel {
  enum class Kind { kLines, kBars };
  enum class Scale { kLog2, kLinear, kLog10 };
  struct Line {
    std::string x;                         // a number, or the label of a group of bars
    std::vector<std::optional<double>> y;  // by series
  };
  std::string title = {}, x_label = {}, y_label = {};
  Kind kind = Kind::kLines;
  Scale x_scale = Scale::kLog2;    // of lines: kLog2 or kLinear
  Scale y_scale = Scale::kLinear;  // of bars: kLinear or kLog10
  std::vector<std::string> series = {};
  std::vector<Line> lines = {};
};

struct Figure {
  std::string name;   // base name of its files: "figure-5.1-bf16"
  std::string title;  // "Figure 5.1: …"
  std::string bench;  // shows rows of this bench
  std::vector<Panel> panels = {};
};

}  // namespace itif::bench
