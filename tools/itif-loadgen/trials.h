// The runs of several trials: searches for the highest rate, and sweeps over rates.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "options.h"
#include "runner.h"
#include "trial.h"

namespace itif::loadgen {

// The searches for one goal.
struct SearchResults {
  Goal goal;
  uint32_t repeats = 0;      // wanted
  std::vector<Found> found;  // by repeat; fewer than wanted after an interrupt
  std::vector<Trial> trials;

  Spread spread() const;
  // True if each repeat found a rate.
  bool succeeded() const noexcept;
};

// Prints a line per trial to standard error unless options.quiet. Errors: those of Runner::run_at.
Result<std::vector<SearchResults>> search(const Options& options, Runner& runner);
Result<std::vector<Trial>> sweep(const Options& options, Runner& runner);

// Tables and JSON documents.
std::string search_table(const std::vector<SearchResults>& searches);
std::string sweep_table(const std::vector<Trial>& trials);
nlohmann::ordered_json search_json(const Options& options,
                                   const std::vector<SearchResults>& searches);
nlohmann::ordered_json sweep_json(const Options& options, const std::vector<Trial>& trials);

}  // namespace itif::loadgen
