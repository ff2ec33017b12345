// Rows of GSLICE's Figures 8 to 10, 12 and 14 and of its Tables 1 to 3, with the paper's figures.
// itif-bench (on a device) and itif-sim (simulated) write the same rows, so that their tables and
// plots are the same.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "report/gslice_paper.h"
#include "report/row.h"
#include "report/time_line.h"

namespace itif::bench {

using AddRow = std::function<void(Row)>;

// The answers of a group, or of all groups of a combination together.
struct Served {
  double per_s = 0, spread = 0;  // answers, and the spread of this rate
  double batch_ms = 0;           // mean time of an answer's batch, from its start to its end
  double gue() const;            // telemetry::gue()
};
// Times of a group's answers.
struct AnswerTimes {
  double p50_ms = 0, p99_ms = 0;
  double late_percent = 0;  // later than the objective
};

// Figures 8 to 10, and GUE. `name`: "C1, all groups, bf16". `stated`: of a combination; null: the
// row is of one of its groups.
void add_served(const AddRow& add, const std::string& name, const std::string& mode, Way way,
                const Served& served, const StatedMix* stated);
void add_times(const AddRow& add, const std::string& name, const std::string& mode,
               const AnswerTimes& times);

// Ratios of one mode to another of the same combination.
struct Gains {
  std::string mode;      // "tuned slices"
  double gue = 0;        // over the default's
  double per_s = 0;      // answers/s over the default's
  double over_slab = 0;  // answers/s over slab's; 0: not a mode with slices
};
void add_gains(const AddRow& add, const std::string& name, Way way, const Gains& gains,
               const StatedMix& stated);
// The answers/s of the heaviest group of C3 and C4 with slices, over those with slab.
void add_heaviest(const AddRow& add, const std::string& name, const std::string& mode,
                  double over_slab);

// Figures 12a and 12b. `network`: the paper's. `over_none`: answers/s over those without
// components; nullopt: this is that run.
struct ComponentRun {
  Served served;
  double batch_over_none = 0;  // time of a batch over that without components
  double p50_ms = 0, p99_ms = 0;
  std::optional<double> over_none = {};
};
void add_component(const AddRow& add, const std::string& name, const Component& component,
                   const std::string& network, const ComponentRun& run);

// The time of the requests in flight in Figures 12c and 14, if they were answered at the group's
// highest rate, as a part of the objective.
inline constexpr double kPartInFlight = 0.8;
// Figure 14. `name`: "objective, 25 ms, bf16".
void add_control(const AddRow& add, const std::string& name, const std::string& control,
                 const Served& served, const AnswerTimes& times);
void add_slab_over_aimd(const AddRow& add, const std::string& name, double ratio);

// Figure 12c. `step`: "the objective rises", which has the paper's figure, or another. `slo_ms`:
// the objective, or the higher one.
struct Converged {
  uint32_t slo_ms = 0;
  std::string step, control, dtype;
  double ms = 0, spread = 0;
};
inline constexpr const char* kObjectiveRises = "the objective rises";
inline constexpr const char* kObjectiveFalls = "the objective falls";
inline constexpr const char* kOtherLeaves = "the other group leaves";
void add_convergence(const AddRow& add, const Converged& converged);
// The figure of batches over time of that step. `interval_s`: of its periods.
TimeLine convergence_line(uint32_t slo_ms, double low_ms, double interval_s);

// Table 1. `name`: "minilm-l6, identical models, bf16". `stated`: of the network that the model
// stands for; null: the paper has no such case, or the values are none of the table's.
struct SharedPair {
  std::string what, unit;         // "load", "ms"
  double alone = 0, shared = 0;   // copies of their own, shared weights
  bool is_better_larger = false;  // the ratio is shared / alone, else alone / shared
};
void add_shared_pair(const AddRow& add, const std::string& name, const SharedPair& pair,
                     const StatedSharing* stated);
void add_model_size(const AddRow& add, const std::string& name, double size_mb,
                    const StatedSharing* stated);
inline constexpr const char* kLoadTime = "load";
inline constexpr const char* kTenantMemory = "memory";
inline constexpr const char* kTenantsThatFit = "tenants that fit";
// A line of the table, with its ratios.
std::string sharing_text(const StatedSharing& stated);

}  // namespace itif::bench
