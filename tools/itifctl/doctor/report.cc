#include "doctor/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "context.h"
#include "doctor/checks.h"

namespace itif::ctl::doctor {
namespace {

std::string_view word_of(Verdict verdict) {
  return verdict == Verdict::kNotApplicable ? "n/a" : verdict_name(verdict);
}

}  // namespace

Checks run_checks(const Machine& machine) {
  Checks checks;
  check_memory(machine, checks);
  check_rights(machine, checks);
  check_cpus(machine, checks);
  check_ports(machine, checks);
  return checks;
}

size_t count_of(const Checks& checks, Verdict verdict) {
  return static_cast<size_t>(std::ranges::count(checks, verdict, &Check::verdict));
}

std::string report_text(const Machine& machine, const Checks& checks) {
  size_t width = 0;
  for (const Check& check : checks) width = std::max(width, check.name.size());
  std::string text = fmt::format(
      "configuration: {}; itifd: {}\n",
      machine.config_file.empty() ? "none, so the defaults" : printable(machine.config_file),
      machine.is_running() ? "runs" : "does not answer");
  for (const Check& check : checks) {
    text += fmt::format("{:<5} {:<{}}  {}\n", word_of(check.verdict), printable(check.name), width,
                        printable(check.evidence));
    if (!check.remedy.empty())
      text += fmt::format("{:<5} {:<{}}  → {}\n", "", "", width, printable(check.remedy));
  }
  return text + fmt::format("{} failed, {} to improve, {} good, {} not applicable\n",
                            count_of(checks, Verdict::kFail), count_of(checks, Verdict::kWarn),
                            count_of(checks, Verdict::kOk),
                            count_of(checks, Verdict::kNotApplicable));
}

nlohmann::json report_json(const Machine& machine, const Checks& checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& check : checks)
    list.push_back({{"name", check.name},
                    {"verdict", verdict_name(check.verdict)},
                    {"evidence", check.evidence},
                    {"remedy", check.remedy}});
  return {{"config", machine.config_file},
          {"running", machine.is_running()},
          {"failed", count_of(checks, Verdict::kFail)},
          {"warnings", count_of(checks, Verdict::kWarn)},
          {"checks", std::move(list)}};
}

}  // namespace itif::ctl::doctor
