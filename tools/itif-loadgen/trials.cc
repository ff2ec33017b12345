#include "trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace itif::loadgen {
namespace {

Result<Trial> run_trial(const Options& options, Runner& runner, double rate, uint32_t repeat,
                        double allowed_percent) {
  ITIF_ASSIGN(Results results, runner.run_at(rate));
  Trial trial{.repeat = repeat, .rate = rate, .results = std::move(results), .judgement = {}};
  trial.judgement = runner.was_stopped() ? Judgement{Verdict::kInterrupted, "interrupted"}
                                         : judge(options, trial.results, allowed_percent);
  if (!options.quiet)
    fmt::print(stderr, "{:.6g}/s: {}\n", rate,
               trial.judgement.reason.empty() ? "passed" : trial.judgement.reason);
  return trial;
}

}  // namespace

Spread SearchResults::spread() const {
  std::vector<double> rates;
  for (const Found& one : found) rates.push_back(one.rate);
  return rates.empty() ? Spread{} : spread_of(rates);
}

bool SearchResults::succeeded() const noexcept {
  return found.size() == repeats && std::ranges::all_of(found, [](const Found& one) {
           return one.rate > 0 && one.limited_by != LimitedBy::kInterrupted;
         });
}

Result<std::vector<SearchResults>> search(const Options& options, Runner& runner) {
  std::vector<SearchResults> searches;
  SearchBounds bounds;
  bounds.precision_percent = options.precision_percent;
  bounds.lowest = kFewestRequests * 1e9 / static_cast<double>(options.duration_ns);
  bounds.start = std::max(options.rate, bounds.lowest);
  if (options.rate_given) bounds.highest = bounds.start;
  for (const Goal& goal : options.goals) {
    if (runner.was_stopped()) break;
    SearchResults results{.goal = goal, .repeats = options.repeats, .found = {}, .trials = {}};
    std::optional<Error> error;
    for (uint32_t repeat = 1; repeat <= options.repeats && !runner.was_stopped(); ++repeat) {
      const Found found = find_rate(bounds, [&](double rate) {
        runner.settle();
        if (runner.was_stopped()) return Verdict::kInterrupted;
        auto trial = run_trial(options, runner, rate, repeat, goal.loss_percent);
        if (!trial) {
          error = std::move(trial.error());
          return Verdict::kInterrupted;
        }
        results.trials.push_back(*std::move(trial));
        return results.trials.back().judgement.verdict;
      });
      if (error) return std::unexpected(*std::move(error));
      results.found.push_back(found);
      // The next search starts near this result. It finds its own bounds.
      bounds.start = std::clamp(found.rate, bounds.lowest, bounds.highest);
    }
    searches.push_back(std::move(results));
  }
  return searches;
}

Result<std::vector<Trial>> sweep(const Options& options, Runner& runner) {
  std::vector<Trial> trials;
  for (uint32_t step = 0; step < options.sweep.steps && !runner.was_stopped(); ++step) {
    runner.settle();
    ITIF_ASSIGN(Trial trial, run_trial(options, runner, options.sweep.rate(step), 1, 0));
    trials.push_back(std::move(trial));
  }
  return trials;
}

}  // namespace itif::loadgen
