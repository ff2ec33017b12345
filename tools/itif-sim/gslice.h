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
#include "report/gslice_rows.h"
#include "report/results.h"
#include "sim/figures.h"
#include "sim/scenario.h"

namespace itif::sim {

inline constexpr uint64_t kSecond = 1'000'000'000, kMs = 1'000'000;  // in ns

// Figures 8 to 10, Tables 2 and 3: groups that always have requests, under three modes.
struct MixRow {
  std::string mix, networks;  // "C1", and the paper's networks whose place its groups take
  bench::Way way = bench::Way::kDefault;
  struct Group {
    std::string model;
    bench::Served served;
    bench::AnswerTimes times;
    double mean_ms = 0;
  };
  std::vector<Group> groups;
  bench::Served served() const;  // of all groups; the time of a batch is the mean of all answers
};
// By Way.
inline constexpr const char* kWays[] = {"default", "slab", "tuned slices"};

// Figures 12a and 12b: a group that always has requests, with some components of GSLICE.
struct ComponentRow {
  std::string model, network;
  bench::Component component;
  bench::Served served;
  double p50_ms = 0, p99_ms = 0;
};

// Figure 14: a group with an objective, under two controls of its batches.
struct ControlRow {
  std::string control;
  uint32_t slo_ms = 0;
  bench::Served served;
  bench::AnswerTimes times;
};

struct GsliceReport {
  std::vector<MixRow> mixes;
  std::vector<ComponentRow> components;
  std::vector<ControlRow> controls;
  std::vector<bench::Converged> convergences;  // Figure 12c
  std::vector<bench::TimeLine> convergence_lines;
  std::vector<bench::TimeLine> time_lines;  // Figures 15 and 16
};

// The type of all runs, on the machine v100.
inline constexpr const char* kGsliceType = "f16";
// `in_flight` requests at all times: texts of 64 tokens, or images.
GroupScenario busy_group(const std::string& model, uint64_t slo_ns, uint32_t in_flight);
Scenario gslice_scenario(std::vector<GroupScenario> groups);
bench::Served served_of(const Results& results, size_t group);
bench::AnswerTimes times_of(const Results& results, size_t group);

// Errors of these: those of simulate().
Result<GsliceReport> run_gslice(bool is_quick);
// Figures 12c and 14.
Status run_controls(bool is_quick, GsliceReport& report);

// The rows, notes and time lines as the benches slices, slab and components write them.
std::vector<bench::Results> results_of(const GsliceReport& report);
std::string to_markdown(const std::string& command, const GsliceReport& report);
std::string to_json(const GsliceReport& report);

}  // namespace itif::sim
