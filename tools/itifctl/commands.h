// The commands, one function per family. Each adds subcommands whose callbacks set context.action.
#pragma once

#include <CLI/CLI.hpp>

#include "completion.h"
#include "context.h"

namespace itif::ctl {

struct CommandLine {
  CLI::App& app;
  Context& context;
  ValueHints& hints;
};

void add_tenant_commands(CommandLine& line);  // tenant add, list, show, update, …
// tenant versions, promote, rollback, remove
void add_version_commands(CommandLine& line, CLI::App* tenants);
// group update, knee; called by add_group_commands()
void add_group_update(CommandLine& line, CLI::App* groups);
void add_group_knee(CommandLine& line, CLI::App* groups);
void add_group_commands(CommandLine& line);   // group list, planner; profile show, run
void add_drops(CommandLine& line);            // called by add_figure_commands()
void add_figure_commands(CommandLine& line);  // stats, drops, device, health, events
// tenant stages, bottleneck, trace. REQUIRES: add_tenant_commands() was called.
void add_watch_commands(CommandLine& line);
void add_drain_commands(CommandLine& line);  // drain, undrain
void add_handover_command(CommandLine& line);
void add_infer_command(CommandLine& line);   // infer
void add_local_commands(CommandLine& line);  // keygen, config check, completion
void add_doctor_command(CommandLine& line);

// Check a value while the command line is parsed; a mistake is then a usage error.
CLI::Validator duration_text();              // "25ms"
CLI::Validator percent_text(uint64_t most);  // "5%" or "5": 1 to `most`
// Decimal digits only: CLI11 takes 0x1e, 010 (as 8), " 5" and +5 for numbers, too.
CLI::Validator whole_number(uint64_t least, uint64_t most);
// Adds a check to all options, also of subcommands: an empty value, perhaps of an unset variable of
// a shell, must not count as a missing option. Only texts for a model may be empty.
void refuse_empty_values(CLI::App& app);

// Adds the positional TENANT: a tenant's name or id.
CLI::Option* add_tenant_argument(CommandLine& line, CLI::App* command, std::string& tenant);
// Adds the positional GROUP: a group's name.
void add_group_argument(CLI::App* command, std::string& group);
// The `tenant` argument of an operation. A number is an id, because names start with a letter.
nlohmann::json tenant_ref(const std::string& name_or_id);
// Prints the answer to a change of a tenant: its name, then `done`. Returns the exit code.
int show_changed(const Context& context, const std::expected<nlohmann::json, int>& answer,
                 const char* done);

}  // namespace itif::ctl
