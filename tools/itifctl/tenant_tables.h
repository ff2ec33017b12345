// Tenants as itifctl prints them.
#pragma once

#include <nlohmann/json.hpp>

namespace itif::ctl {

// One tenant, a line for each of its facts. `tenant`: as in the control server's answers.
void print_tenant(const nlohmann::json& tenant);
// A table of tenants, then why those that failed did.
void print_tenants(const nlohmann::json& tenants);

}  // namespace itif::ctl
