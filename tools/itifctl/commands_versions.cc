// itifctl tenant versions, promote, rollback, remove.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "key_store.h"
#include "table.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

constexpr size_t kDigestDigits = 12;  // shown of the digest

void print_versions(const json& versions) {
  using enum Table::Align;
  const bool has_adapters =
      std::ranges::any_of(versions, [](const json& v) { return v.contains("base_dir"); });
  std::vector<Table::Column> columns = {
      {"VERSION", kRight}, {"STATE"},       {"PART", kRight},     {"LOADED"},
      {"INSTALLED"},       {"DIGEST"},      {"REQUESTS", kRight}, {"ERRORS", kRight},
      {"REFUSED", kRight}, {"P50", kRight}, {"P99", kRight},      {"MODEL"}};
  if (has_adapters) columns.push_back({"BASE"});
  Table table(columns);
  std::string notes;
  for (const json& v : versions) {
    const bool has_latency = v.value("answered", uint64_t{0}) > 0;
    std::vector<std::string> cells = {text_cell(v, "version"),
                                      text_cell(v, "state"),
                                      v.contains("percent") ? text_cell(v, "percent") + "%" : "-",
                                      v.value("loaded", false) ? "yes" : "no",
                                      time_cell(v, "installed_unix_ns"),
                                      v.value("digest", "-").substr(0, kDigestDigits),
                                      count_cell(v, "requests"),
                                      count_cell(v, "errors"),
                                      count_cell(v, "refused"),
                                      has_latency ? duration_cell(v, "p50_ns") : "-",
                                      has_latency ? duration_cell(v, "p99_ns") : "-",
                                      text_cell(v, "model_dir")};
    if (has_adapters) cells.push_back(text_cell(v, "base_dir"));
    table.add(std::move(cells));
    if (v.contains("message"))
      notes += fmt::format("version {}: {}\n", text_cell(v, "version"),
                           printable(text_cell(v, "message")));
  }
  fmt::print("{}{}", table.text(), notes);
}

void add_versions(CommandLine& line, CLI::App* tenants) {
  auto tenant = std::make_shared<std::string>();
  CLI::App* command = tenants->add_subcommand(
      "versions", "List the versions of a tenant's model, their requests, errors and latency");
  add_tenant_argument(line, command, *tenant);
  command->footer(
      "PART is the version's part of the requests. Counts begin when it was loaded. ERRORS ended\n"
      "with a status; REFUSED, too, but for the load, a quota or a stop of the appliance.\n"
      "Example:\n  itifctl tenant versions sentiment");
  Context& context = line.context;
  command->callback([&context, tenant] {
    context.action = [&context, tenant] {
      const auto answer = context.call("tenant.versions", {{"tenant", tenant_ref(*tenant)}});
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        print_versions(answer->value("versions", json::array()));
      return static_cast<int>(kDone);
    };
  });
}

// Adds a command that makes another version active.
void add_switch_version(CommandLine& line, CLI::App* tenants, const char* name, const char* op,
                        const char* description, const char* note) {
  auto tenant = std::make_shared<std::string>();
  CLI::App* command = tenants->add_subcommand(name, description);
  add_tenant_argument(line, command, *tenant);
  command->footer(fmt::format("{}Example:\n  itifctl tenant {} sentiment", note, name));
  Context& context = line.context;
  command->callback([&context, tenant, op] {
    context.action = [&context, tenant, op] {
      const auto answer = context.call_long(op, {{"tenant", tenant_ref(*tenant)}});
      std::string done;
      if (answer) {
        const json& changed = (*answer)["tenant"];
        const std::string version = text_cell(changed, "version");
        done = changed.value("state", "") == "paused"
                   ? fmt::format("has version {} now, and is paused", version)
                   : fmt::format("is served by version {}", version);
      }
      return show_changed(context, answer, done.c_str());
    };
  });
}

void print_removed(const json& answer) {
  fmt::print("tenant {} removed: {} last requests answered, {} refused\n",
             text_cell(answer, "name"), count_cell(answer, "answered"),
             count_cell(answer, "refused"));
  if (answer.value("in_flight", uint64_t{0}) > 0)
    fmt::print("{} requests have not ended after {}: its memory is freed after the last of them\n",
               count_cell(answer, "in_flight"), duration_cell(answer, "waited_ns"));
}

void add_remove(CommandLine& line, CLI::App* tenants) {
  struct Options {
    std::string tenant;
    std::string within = "10s";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      tenants->add_subcommand("remove", "Answer accepted requests, then remove the tenant");
  add_tenant_argument(line, command, options->tenant);
  command->add_option("--within", options->within, "longest wait for the answers [10s]")
      ->type_name("TIME")
      ->check(duration_text());
  command->footer(
      "Examples:\n"
      "  itifctl tenant remove sentiment\n"
      "  itifctl tenant remove translate --within 1m");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] {
      const uint64_t timeout_ns = parse_duration_ns(options->within).value_or(0);
      const auto answer = context.call(
          "tenant.remove", {{"tenant", tenant_ref(options->tenant)}, {"timeout_ns", timeout_ns}},
          timeout_ns + kLoadTimeoutNs);
      if (!answer) return answer.error();
      if (auto store = KeyStore::of_user();
          store && answer->value("id", json()).is_number_unsigned())
        (void)store->forget(context.globals.endpoint, (*answer)["id"]);
      if (context.globals.json)
        context.print_json(*answer);
      else
        print_removed(*answer);
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace

void add_version_commands(CommandLine& line, CLI::App* tenants) {
  add_versions(line, tenants);
  add_switch_version(line, tenants, "promote", "tenant.promote",
                     "Let a tenant's canary answer all requests", "");
  add_switch_version(line, tenants, "rollback", "tenant.rollback",
                     "Take a tenant's canary back, or make its previous version active again",
                     "A previous version that is no longer in memory is loaded from its "
                     "directory.\n");
  add_remove(line, tenants);
}

}  // namespace itif::ctl
