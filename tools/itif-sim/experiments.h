// The experiments of TCB's section 6 as data, and one of our own. Each has curves over one varied
// quantity. docs/simulation.md says what the paper leaves open and what is chosen here.
//
// Scenarios whose model generates have experiments of their own: without `turbo`, whose cost tables
// a decoder lacks, and with the times at which sequences join and give their memory back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenario.h"

namespace itif::sim {

// The quantity on the x axis.
enum class Axis : uint8_t { kRate, kVariance, kBatchRows, kRowTokens, kSlots };
std::string axis_label(Axis axis);

struct Curve {
  std::string name;  // in legends
  std::string planner, scheduler;
  std::string joining = {}, cleaning = {};  // of models that generate; empty: the scenario's
};

// A metric of metrics.h, drawn as one panel.
struct Shown {
  std::string figure;  // of the paper: "9"
  std::string metric;
  // True: draws the first curve's first value over each value, as speed-ups of times.
  bool is_speed_up = false;
};

// The ratio of two curves that the paper states.
struct Stated {
  std::string metric, curve, over;
  std::string paper;  // as the paper has it; empty: it does not
};

struct Experiment {
  std::string name;   // of its files: "figures-9-10"
  std::string title;  // with the figures' numbers
  std::vector<std::string> figures = {};
  Axis axis = Axis::kRate;
  std::vector<double> values = {}, quick_values = {};
  std::vector<Curve> curves = {};
  std::vector<Shown> shown = {};
  std::vector<Stated> stated = {};
  // The load and the batch, except for what the axis replaces.
  double rate = 0;  // requests per second; 0: the device always has the next batch
  double variance = 20;
  uint32_t batch_rows = 64, row_tokens = 100;  // the paper's B and L
  uint32_t slots = 1;
  bool has_four_tenants = false;  // the first sends half of the requests
  bool measures_decisions = false;
};

std::vector<Experiment> paper_experiments(bool generates);
// "9, 10, …"
std::string figure_names(bool generates);
// Returns the scenario of a curve at x.
Scenario scenario_of(const Experiment& experiment, const Curve& curve, double x,
                     const Scenario& base);

}  // namespace itif::sim
