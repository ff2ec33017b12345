// Tables and JSON documents of searches and sweeps.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report.h"
#include "trials.h"

namespace itif::loadgen {
namespace {

using Json = nlohmann::ordered_json;

std::string head(bool with_repeat) {
  return fmt::format("{}{:>12} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}  {}\n",
                     with_repeat ? "repeat " : "", "rate/s", "sent", "answered", "lost", "refused",
                     "late", "loss %", "p50", "p99", "result");
}

std::string row(const Trial& trial, bool with_repeat) {
  const TargetResults total = trial.results.total();
  return fmt::format("{}{:>12.6g} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8.3g} {:>9} {:>9}  {}\n",
                     with_repeat ? fmt::format("{:>6} ", trial.repeat) : "", trial.rate, total.sent,
                     total.answered, total.lost, total.refused, total.answered - total.in_time,
                     loss_percent(total), time_cell(total.latency_ns, 50),
                     time_cell(total.latency_ns, 99),
                     trial.judgement.reason.empty() ? "passed" : trial.judgement.reason);
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPassed: return "passed";
    case Verdict::kServer: return "server";
    case Verdict::kGenerator: return "generator";
    case Verdict::kInterrupted: return "interrupted";
  }
  return "?";
}

Json trial_json(const Options& options, const Trial& trial) {
  Json json;
  json["rate"] = trial.rate;
  json["result"] = verdict_name(trial.judgement.verdict);
  json["reason"] = trial.judgement.reason;
  json["loss_percent"] = loss_percent(trial.results.total());
  json["offered_percent"] = 100 * offered_share(trial.results);
  json.update(results_json(options, trial.results));
  return json;
}

Json document(const Options& options, const char* mode) {
  Json json;
  json["tool"] = "itif-loadgen";
  json["version"] = 1;
  json["mode"] = mode;
  json["configuration"] = configuration_json(options);
  return json;
}

// "the server", or several with their numbers of repeats.
std::string limits_text(const std::vector<Found>& found) {
  std::string text;
  for (const LimitedBy limit :
       {LimitedBy::kServer, LimitedBy::kGenerator, LimitedBy::kHighest, LimitedBy::kInterrupted}) {
    const auto count = std::ranges::count(found, limit, &Found::limited_by);
    if (count == 0) continue;
    if (!text.empty()) text += ", ";
    text += limit == LimitedBy::kServer      ? "the server"
            : limit == LimitedBy::kGenerator ? "this program"
            : limit == LimitedBy::kHighest   ? "--rate"
                                             : "an interrupt";
    if (static_cast<size_t>(count) < found.size())
      text += fmt::format(" ({} of {})", count, found.size());
  }
  return text;
}

}  // namespace

std::string search_table(const std::vector<SearchResults>& searches) {
  std::string text;
  for (const SearchResults& search : searches) {
    text += fmt::format("{}{} trials:\n{}", text.empty() ? "" : "\n", search.goal.name, head(true));
    for (const Trial& trial : search.trials) text += row(trial, true);
  }
  for (const SearchResults& search : searches) {
    if (search.found.empty()) continue;
    const Spread spread = search.spread();
    text += fmt::format(
        "{}: {:.6g} requests/s (median of {}; {:.6g} to {:.6g}, a spread of {:.2g} %); limited by "
        "{}\n",
        search.goal.name, spread.median, search.found.size(), spread.least, spread.most,
        spread.percent(), limits_text(search.found));
    if (search.found.size() < search.repeats ||
        search.found.back().limited_by == LimitedBy::kInterrupted)
      text += fmt::format("interrupted in search {} of {}\n", search.found.size(), search.repeats);
    else if (spread.least == 0)
      text += "no rate passed: is the server overloaded already?\n";
  }
  return text;
}

std::string sweep_table(const std::vector<Trial>& trials) {
  std::string text = head(false);
  for (const Trial& trial : trials) text += row(trial, false);
  return text;
}

Json search_json(const Options& options, const std::vector<SearchResults>& searches) {
  Json json = document(options, "search");
  Json& all = json["searches"] = Json::array();
  for (const SearchResults& search : searches) {
    const Spread spread = search.spread();
    Json one;
    one["goal"] = search.goal.loss_percent == 0 ? "ndr" : "pdr";
    one["allowed_loss_percent"] = search.goal.loss_percent;
    one["rate"] = {{"median", spread.median},
                   {"min", spread.least},
                   {"max", spread.most},
                   {"spread_percent", spread.percent()}};
    one["succeeded"] = search.succeeded();
    Json& found = one["found"] = Json::array();
    for (const Found& each : search.found)
      found.push_back({{"rate", each.rate}, {"limited_by", limited_by_name(each.limited_by)}});
    Json& trials = one["trials"] = Json::array();
    for (const Trial& trial : search.trials) {
      Json each = {{"repeat", trial.repeat}};
      each.update(trial_json(options, trial));
      trials.push_back(std::move(each));
    }
    all.push_back(std::move(one));
  }
  return json;
}

Json sweep_json(const Options& options, const std::vector<Trial>& trials) {
  Json json = document(options, "sweep");
  Json& all = json["trials"] = Json::array();
  for (const Trial& trial : trials) all.push_back(trial_json(options, trial));
  return json;
}

}  // namespace itif::loadgen
