// The experiments of GSLICE's section 4 as data, and their runs. Transformers of unlike weight take
// the place of the paper's networks: BERT-tiny, MiniLM, ViT-base and ALBERT-large for Mobilenet,
// Alexnet, ResNet-50 and VGG-19.
//
// Source: Dhakal et al., "GSLICE: controlled spatial sharing of GPUs for a scalable inference
// platform", SoCC 2020.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "report/figure.h"
#include "sim/figures.h"
#include "sim/scenario.h"

namespace itif::sim {

// Figures 8 to 10, Tables 2 and 3: groups that always have requests, under three modes.
struct MixRow {
  std::string mix, mode;
  struct Group {
    std::string model;
    double per_s = 0, mean_ms = 0, p99_ms = 0;
    double execute_ms = 0;  // from the launch of a batch to its end
  };
  std::vector<Group> groups;
  double per_s() const;       // of all groups
  double mean_ms() const;     // of all answers
  double execute_ms() const;  // of all answers
  // Section 2.1.4, with the time of a batch as the latency: with requests always waiting, a
  // client's latency is their number over the throughput.
  double gue() const { return execute_ms() > 0 ? per_s() / execute_ms() : 0; }
};
inline constexpr const char* kModes[] = {"default", "slab", "slices"};

// Figures 12a and 12b: a group that always has requests, with some components of GSLICE.
struct ComponentRow {
  std::string model, mode;  // bench::Component::name
  double per_s = 0, p50_ms = 0;
  double execute_ms = 0;  // from the launch of a batch to its end
};

// Figures 12c and 14: a group with an objective, under two controls of its batches.
struct ControlRow {
  std::string control;
  double slo_ms = 0, per_s = 0, p99_ms = 0;
  double late_percent = 0;  // of the answers, later than the objective
  // From the end of another group, with which it shared the device, to the first tenth of a second
  // in which it answers 95 % of what it answers at last.
  double convergence_ms = 0;
};

// Figures 15 and 16.
struct TimeLine {
  std::string name, title;
  Results results;
};

struct GsliceReport {
  std::vector<MixRow> mixes;
  std::vector<ComponentRow> components;
  std::vector<ControlRow> controls;
  std::vector<TimeLine> time_lines;
};

// Errors: those of simulate().
Result<GsliceReport> run_gslice(bool is_quick);

// Figures 12a and 12b of a report.
bench::Figure components_figure(const GsliceReport& report);
std::string to_markdown(const std::string& command, const GsliceReport& report);
std::string to_json(const GsliceReport& report);

}  // namespace itif::sim
