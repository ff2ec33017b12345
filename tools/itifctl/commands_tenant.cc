// itifctl tenant …
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "key_store.h"
#include "table.h"
#include "tenant/settings.h"
#include "tenant_tables.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

// Settings of `tenant add` and `tenant update`; empty: not given.
struct Settings {
  std::string model;
  std::string base;
  std::string group;
  std::string slo;
  std::string auth;
  uint32_t weight = 0;
  uint32_t quota_rps = 0;
  CLI::Option* weight_option = nullptr;
  CLI::Option* quota_option = nullptr;
};

void add_settings(CommandLine& line, CLI::App* command, Settings& settings) {
  CLI::Option* model =
      command->add_option("--model", settings.model, "model directory on the appliance's machine")
          ->type_name("DIR");
  CLI::Option* base =
      command
          ->add_option("--base", settings.base,
                       "of a LoRA adapter (PEFT): its base model, a directory on the appliance's "
                       "machine (./DIR, /DIR) or a tenant's name")
          ->type_name("DIR|TENANT");
  command
      ->add_option("--slo", settings.slo,
                   "latency objective (25ms, 1s; 0s: none): limits batch sizes; misses are counted "
                   "[0s]")
      ->type_name("TIME")
      ->check(duration_text());
  settings.weight_option =
      command
          ->add_option("--weight", settings.weight,
                       "share of the group's time, relative to the other tenants, 1 to 1000 [1]")
          ->type_name("N")
          ->check(whole_number(1, tenant::kMaxWeight));
  settings.quota_option = command
                              ->add_option("--quota-rps", settings.quota_rps,
                                           "accepted requests per second, 0: unlimited [0]")
                              ->type_name("N")
                              ->check(whole_number(0, tenant::kMaxQuotaRps));
  const std::vector<std::string> auths(tenant::kAuthNames.begin(), tenant::kAuthNames.end());
  CLI::Option* auth =
      command
          ->add_option("--auth", settings.auth,
                       "least protection of datagrams: none, header (a tag over the header), full "
                       "(over the payload, too) or sealed (the payload is encrypted) [full]")
          ->type_name("KIND")
          ->check(CLI::IsMember(auths));
  line.hints[model] = {ValueHint::Kind::kDirectory};
  line.hints[base] = {ValueHint::Kind::kDirectory};
  line.hints[auth] = {ValueHint::Kind::kChoice, auths};
}

json to_args(const Settings& settings) {
  json args = json::object();
  // The server needs an absolute path, because its working directory differs from ours.
  if (!settings.model.empty())
    args["model_dir"] = std::filesystem::absolute(settings.model).lexically_normal().string();
  // A name has no slash, so that no directory is taken for a tenant.
  if (!settings.base.empty())
    args["base"] = settings.base.find('/') == std::string::npos
                       ? settings.base
                       : std::filesystem::absolute(settings.base).lexically_normal().string();
  if (!settings.group.empty()) args["group"] = settings.group;
  if (!settings.slo.empty()) args["slo_ns"] = parse_duration_ns(settings.slo).value_or(0);
  if (settings.weight_option->count() > 0) args["weight"] = settings.weight;
  if (settings.quota_option->count() > 0) args["quota_rps"] = settings.quota_rps;
  if (!settings.auth.empty()) args["auth"] = settings.auth;
  return args;
}

// Saves a new key for `infer`. Failing to save it is not an error, because the key is printed.
std::string keep_key(const Context& context, const json& answer) {
  const json& tenant = answer["tenant"];
  auto store = KeyStore::of_user();
  Status saved;
  if (!store) {
    saved = std::unexpected(store.error());
  } else {
    saved = store->save(
        context.globals.endpoint, tenant["id"],
        {tenant["name"], tenant["created_unix_ns"], tenant["key_epoch"], answer["key"]});
  }
  if (saved) return "kept in " + store->path();
  fmt::print(stderr, "itifctl: the key is not kept for `itifctl infer`, pass it with --key: {}\n",
             saved.error().message);
  return "not kept";
}

void print_key(const Context& context, const json& answer, bool save) {
  const std::string where = save ? keep_key(context, answer) : "not kept";
  if (context.globals.json) return context.print_json(answer);
  Facts facts;
  facts.add("tenant", text_cell(answer["tenant"], "name"));
  facts.add("id", text_cell(answer["tenant"], "id"));
  facts.add("key", text_cell(answer, "key"));
  facts.add("key epoch", text_cell(answer["tenant"], "key_epoch"));
  fmt::print("{}The key is shown only now ({}).\n", facts.text(), where);
}

void add_add(CommandLine& line, CLI::App* tenants) {
  struct Options : Settings {
    std::string name;
    bool no_save_key = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = tenants->add_subcommand("add", "Load a model and serve it as a tenant");
  command
      ->add_option("NAME", options->name,
                   "tenant name: a letter, then letters, digits, '.', '_', '-'")
      ->required();
  add_settings(line, command, *options);
  command->get_option("--model")->required();
  command->add_option("--group", options->group, "group to join [the architecture's group]")
      ->type_name("NAME");
  command->add_flag("--no-save-key", options->no_save_key,
                    "do not keep the key for `itifctl infer`");
  command->footer(
      "Prints the tenant's id and key. Examples:\n"
      "  itifctl tenant add sentiment --model /models/bert-sst2 --slo 25ms\n"
      "  itifctl tenant add spam --model /models/spam-lora --base /models/bert-base-uncased\n"
      "  itifctl --json tenant add search --model ./all-MiniLM-L6-v2 --quota-rps 500 --auth full");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] {
      json args = to_args(*options);
      args["name"] = options->name;
      const auto answer = context.call_long("tenant.add", args);
      if (!answer) return answer.error();
      print_key(context, *answer, !options->no_save_key);
      return static_cast<int>(kDone);
    };
  });
}

void add_tenant_update(CommandLine& line, CLI::App* tenants) {
  struct Options : Settings {
    std::string tenant;
    std::string name;
    std::string canary;
    bool reload = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      tenants->add_subcommand("update", "Change settings or the model while serving");
  add_tenant_argument(line, command, options->tenant);
  add_settings(line, command, *options);
  command->add_option("--name", options->name, "new name")->type_name("NAME");
  command->add_flag("--reload", options->reload, "load the model directory again");
  command
      ->add_option("--canary", options->canary,
                   "part of the requests that the new version answers, 1% to 99% [all]")
      ->type_name("P%")
      ->check(percent_text(99));
  command->footer(
      "Settings that are not given stay unchanged. Examples:\n"
      "  itifctl tenant update sentiment --weight 4 --quota-rps 0\n"
      "  itifctl tenant update sentiment --model /models/bert-sst2-v2\n"
      "  itifctl tenant update spam --model /models/spam-lora-v2 --base sentiment\n"
      "  itifctl tenant update sentiment --model /models/bert-sst2-v3 --canary 5%\n"
      "  itifctl tenant update sentiment --canary 50%");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] {
      json args = to_args(*options);
      args["tenant"] = tenant_ref(options->tenant);
      if (!options->name.empty()) args["name"] = options->name;
      if (options->reload) args["reload"] = true;
      if (!options->canary.empty()) args["canary_percent"] = std::stoul(options->canary);
      return show_changed(context, context.call_long("tenant.update", args), "updated");
    };
  });
}

void add_rotate_key(CommandLine& line, CLI::App* tenants) {
  struct Options {
    std::string tenant;
    bool drop_previous = false;
    bool no_save_key = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      tenants->add_subcommand("rotate-key", "Make a new key; the previous one stays valid, too");
  add_tenant_argument(line, command, options->tenant);
  command->add_flag("--drop-previous", options->drop_previous,
                    "make no new key, but invalidate the previous one");
  command->add_flag("--no-save-key", options->no_save_key,
                    "do not keep the key for `itifctl infer`");
  command->footer(
      "Examples:\n"
      "  itifctl tenant rotate-key sentiment                   # hand out the new key, then\n"
      "  itifctl tenant rotate-key sentiment --drop-previous   # when all clients have it");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] {
      json args = {{"tenant", tenant_ref(options->tenant)}};
      if (options->drop_previous) args["drop_previous"] = true;
      const auto answer = context.call("tenant.rotate_key", args, kLoadTimeoutNs);
      if (!answer) return answer.error();
      if (options->drop_previous)
        return show_changed(context, answer, "accepts only its newest key");
      print_key(context, *answer, !options->no_save_key);
      return static_cast<int>(kDone);
    };
  });
}

// Adds a command that changes a tenant's state.
void add_switch(CommandLine& line, CLI::App* tenants, const char* name, const char* op,
                const char* description, const char* done) {
  auto tenant = std::make_shared<std::string>();
  CLI::App* command = tenants->add_subcommand(name, description);
  add_tenant_argument(line, command, *tenant);
  command->footer(fmt::format("Example:\n  itifctl tenant {} sentiment", name));
  Context& context = line.context;
  command->callback([&context, tenant, op, done] {
    context.action = [&context, tenant, op, done] {
      return show_changed(context, context.call_long(op, {{"tenant", tenant_ref(*tenant)}}), done);
    };
  });
}

void add_list_and_show(CommandLine& line, CLI::App* tenants) {
  Context& context = line.context;
  CLI::App* list = tenants->add_subcommand("list", "List all tenants");
  list->footer(
      "Examples:\n  itifctl tenant list\n  itifctl --json tenant list | jq '.tenants[].name'");
  list->callback([&context] {
    context.action = [&context] {
      const auto answer = context.call("tenant.list");
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        print_tenants(answer->value("tenants", json::array()));
      return static_cast<int>(kDone);
    };
  });

  auto tenant = std::make_shared<std::string>();
  CLI::App* show = tenants->add_subcommand("show", "Show one tenant, its model and its settings");
  add_tenant_argument(line, show, *tenant);
  show->footer("Example:\n  itifctl tenant show sentiment");
  show->callback([&context, tenant] {
    context.action = [&context, tenant] {
      const auto answer = context.call("tenant.show", {{"tenant", tenant_ref(*tenant)}});
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        print_tenant((*answer)["tenant"]);
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace

CLI::Option* add_tenant_argument(CommandLine& line, CLI::App* command, std::string& tenant) {
  CLI::Option* option = command->add_option("TENANT", tenant, "name or id")->required();
  line.hints[option] = {ValueHint::Kind::kTenant};
  return option;
}

int show_changed(const Context& context, const std::expected<json, int>& answer, const char* done) {
  if (!answer) return answer.error();
  if (context.globals.json)
    context.print_json(*answer);
  else
    fmt::print("tenant {} {}\n", text_cell((*answer)["tenant"], "name"), done);
  if ((*answer)["tenant"].contains("warning"))
    fmt::print(stderr, "itifctl: warning: {}\n", text_cell((*answer)["tenant"], "warning"));
  return kDone;
}

json tenant_ref(const std::string& name_or_id) {
  const bool digits = !name_or_id.empty() && name_or_id.size() <= 10 &&
                      std::ranges::all_of(name_or_id, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? json(std::stoull(name_or_id)) : json(name_or_id);
}

void add_tenant_commands(CommandLine& line) {
  CLI::App* tenants = line.app.add_subcommand("tenant", "Add, list, change and remove tenants");
  tenants->require_subcommand(1);
  add_add(line, tenants);
  add_list_and_show(line, tenants);
  add_tenant_update(line, tenants);
  add_switch(line, tenants, "pause", "tenant.pause",
             "Refuse a tenant's requests; its model stays loaded", "paused");
  add_switch(line, tenants, "resume", "tenant.resume",
             "Accept a paused tenant's requests; load a failed tenant again", "resumed");
  add_rotate_key(line, tenants);
  add_version_commands(line, tenants);
}

}  // namespace itif::ctl
