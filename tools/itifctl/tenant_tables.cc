#include "tenant_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "context.h"
#include "table.h"

namespace itif::ctl {

using nlohmann::json;

namespace {

std::string quota_cell(const json& tenant) {
  return tenant.value("quota_rps", 0u) == 0 ? "-" : count_cell(tenant, "quota_rps");
}

}  // namespace

void print_tenant(const json& tenant) {
  Facts facts;
  facts.add("id", text_cell(tenant, "id"));
  facts.add("name", text_cell(tenant, "name"));
  facts.add("state", text_cell(tenant, "state"));
  if (tenant.contains("message")) facts.add("why", text_cell(tenant, "message"));
  if (tenant.contains("warning")) facts.add("warning", text_cell(tenant, "warning"));
  facts.add("model", text_cell(tenant, "model_dir"));
  if (tenant.contains("base_dir")) facts.add("base", text_cell(tenant, "base_dir"));
  facts.add("version",
            tenant.contains("canary_version")
                ? fmt::format("{} (and {}, a canary, for {} % of the requests)",
                              text_cell(tenant, "version"), text_cell(tenant, "canary_version"),
                              text_cell(tenant, "canary_percent"))
                : text_cell(tenant, "version"));
  facts.add("group", text_cell(tenant, "group"));
  if (tenant.contains("backbone")) {
    facts.add("backbone", text_cell(tenant, "backbone"));
    facts.add("head", text_cell(tenant, "head"));
    facts.add("result", text_cell(tenant, "result_kind"));
    facts.add("max tokens", text_cell(tenant, "max_tokens"));
    facts.add("memory",
              fmt::format("{} of weights, shared ones included, and {} of its group's workspace",
                          bytes_cell(tenant, "weight_bytes"), bytes_cell(tenant, "shared_bytes")));
    if (tenant.contains("adapter_bytes")) facts.add("adapter", bytes_cell(tenant, "adapter_bytes"));
  }
  if (tenant.contains("labels") && tenant["labels"].is_array() && !tenant["labels"].empty()) {
    constexpr size_t kShown = 12;
    std::string labels;
    for (size_t i = 0; i < std::min(tenant["labels"].size(), kShown); ++i)
      labels += (i ? ", " : "") + (tenant["labels"][i].is_string()
                                       ? tenant["labels"][i].get<std::string>()
                                       : tenant["labels"][i].dump());
    if (tenant["labels"].size() > kShown)
      labels += fmt::format(", … {} in all", tenant["labels"].size());
    facts.add("labels", labels);
  }
  facts.add("slo", duration_cell(tenant, "slo_ns"));
  facts.add("weight", text_cell(tenant, "weight"));
  facts.add("quota", quota_cell(tenant) == "-" ? "-" : quota_cell(tenant) + " requests/s");
  facts.add("auth", text_cell(tenant, "auth"));
  facts.add("key epoch",
            tenant.contains("previous_key_epoch")
                ? fmt::format("{} (and {} until it is dropped)", text_cell(tenant, "key_epoch"),
                              text_cell(tenant, "previous_key_epoch"))
                : text_cell(tenant, "key_epoch"));
  facts.add("created", time_cell(tenant, "created_unix_ns"));
  facts.add("changed", time_cell(tenant, "updated_unix_ns"));
  fmt::print("{}", facts.text());
}

void print_tenants(const json& tenants) {
  using enum Table::Align;
  Table table({{"ID", kRight},
               {"NAME"},
               {"STATE"},
               {"GROUP"},
               {"HEAD"},
               {"WEIGHTS", kRight},
               {"SLO", kRight},
               {"WEIGHT", kRight},
               {"QUOTA/S", kRight},
               {"AUTH"}});
  std::string notes;
  for (const json& t : tenants) {
    table.add({text_cell(t, "id"), text_cell(t, "name"), text_cell(t, "state"),
               text_cell(t, "group"), text_cell(t, "head"), bytes_cell(t, "weight_bytes"),
               duration_cell(t, "slo_ns"), text_cell(t, "weight"), quota_cell(t),
               text_cell(t, "auth")});
    if (t.contains("message"))
      notes += fmt::format("{}: {}\n", text_cell(t, "name"), printable(text_cell(t, "message")));
  }
  fmt::print("{}{}", table.text(), notes);
}

}  // namespace itif::ctl
