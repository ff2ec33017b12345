// Our models in place of GSLICE's networks, and what its benches have in common.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "report/gslice_rows.h"
#include "workload/devices.h"
#include "workload/served_groups.h"

namespace itif::bench {

struct GsliceModel {
  const char* network;  // the paper's
  const char* preset;
  const char* quick_preset;  // with --quick
  const char* name(const BenchOptions& options) const {
    return options.quick ? quick_preset : preset;
  }
};
inline constexpr GsliceModel kMobilenet = {"Mobilenet", "bert-tiny", "bert-tiny"};
inline constexpr GsliceModel kAlexnet = {"Alexnet", "minilm-l6", "bert-mini"};
inline constexpr GsliceModel kResNet = {"ResNet-50", "vit-base", "vit-tiny"};
inline constexpr GsliceModel kVgg = {"VGG-19", "albert-large", "albert-tiny"};

inline constexpr uint32_t kGsliceTokens = 64;  // of a text
inline constexpr uint64_t kGsliceObjectiveNs = 25'000'000;

// The paper's objective of 25 ms, or four times what a request takes alone if that is more: a
// batch aims at two fifths of its objective. (The paper's VGG-19 takes 14 ms.)
inline uint64_t objective_of(uint64_t alone_ns) {
  return std::max(kGsliceObjectiveNs, 4 * alone_ns);
}

// The three parts of a measured run, for the spread of its figures.
inline constexpr uint32_t kRunParts = 3;

// Runs with the last of options.dtypes that the device has: these benches compare ways to serve,
// which differ little by type.
Status on_best_type(const BenchOptions& options, Report& report, const OnDevice& run);

// One group's figures of a run.
struct GroupResult {
  std::string model;
  Samples per_s;  // answers, of each part of the run
  double p50_ms = 0, p99_ms = 0;
  double execute_ms = 0;  // mean time of an answer's batch
  double late_percent = 0;

  Served served() const {
    return {.per_s = per_s.median(), .spread = per_s.spread(), .batch_ms = execute_ms};
  }
  AnswerTimes times() const {
    return {.p50_ms = p50_ms, .p99_ms = p99_ms, .late_percent = late_percent};
  }
};
// Measures the active groups for `seconds`, after a warm-up that checks their answers. Errors:
// those of ServedGroups::warm_up().
Result<std::vector<GroupResult>> measure_groups(ServedGroups& groups,
                                                const std::vector<std::string>& models,
                                                double warm_up_s, double seconds);

}  // namespace itif::bench
