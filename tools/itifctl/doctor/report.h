// All checks, as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "doctor/check.h"
#include "doctor/machine.h"

namespace itif::ctl::doctor {

Checks run_checks(const Machine& machine);
size_t count_of(const Checks& checks, Verdict verdict);
// A line per check, a second one with the remedy, and a summary.
std::string report_text(const Machine& machine, const Checks& checks);
nlohmann::json report_json(const Machine& machine, const Checks& checks);

}  // namespace itif::ctl::doctor
