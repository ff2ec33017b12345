// itifctl: administers an appliance over its control endpoint (docs/control.md).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "base/clock.h"
#include "commands.h"
#include "completion.h"
#include "context.h"

namespace itif::ctl {
namespace {

constexpr uint64_t kCompletionTimeoutNs = 1'000'000'000;

void add_globals(CommandLine& line) {
  Globals& globals = line.context.globals;
  CLI::App& app = line.app;
  app.add_option("--endpoint", globals.endpoint,
                 "where itifd listens: ipc:///PATH or tcp://HOST:PORT")
      ->type_name("URL")
      ->envname("ITIF_ENDPOINT")
      ->capture_default_str();
  line.hints[app.add_option("--server-key", globals.server_key,
                            "tcp only: the server's public key, in hex or a .pub file")
                 ->type_name("KEY")
                 ->envname("ITIF_SERVER_KEY")] = {ValueHint::Kind::kFile};
  line.hints[app.add_option("--client-key-file", globals.client_key_file,
                            "tcp only: your key file, made by `itifctl keygen`")
                 ->type_name("FILE")
                 ->envname("ITIF_CLIENT_KEY_FILE")] = {ValueHint::Kind::kFile};
  app.add_option("--timeout", globals.timeout,
                 "longest wait for an answer [10s; 10m while a model loads]")
      ->type_name("TIME")
      ->check(duration_text());
  app.add_flag("--json", globals.json, "print JSON for programs instead of tables");
}

// Completes the words after "__complete --". Must not write to standard error, which the shell
// shows.
int print_completions(const CommandLine& line, std::span<char*> arguments) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  Context& context = line.context;
  // CLI11 cannot parse an unfinished line: find only the options of the connection.
  if (const char* endpoint = std::getenv("ITIF_ENDPOINT")) context.globals.endpoint = endpoint;
  if (const char* key = std::getenv("ITIF_SERVER_KEY")) context.globals.server_key = key;
  if (const char* file = std::getenv("ITIF_CLIENT_KEY_FILE"))
    context.globals.client_key_file = file;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--endpoint") context.globals.endpoint = words[i + 1];
    if (words[i] == "--server-key") context.globals.server_key = words[i + 1];
    if (words[i] == "--client-key-file") context.globals.client_key_file = words[i + 1];
  }
  const auto tenants = [&] {
    std::vector<std::string> names;
    context.globals.timeout.clear();
    std::freopen("/dev/null", "w", stderr);
    const auto answer = context.call("tenant.list", {}, kCompletionTimeoutNs);
    if (answer) {
      for (const auto& tenant : answer->value("tenants", nlohmann::json::array()))
        names.push_back(tenant.value("name", ""));
    }
    return names;
  };
  for (const std::string& word : complete(line.app, line.hints, words, tenants))
    fmt::print("{}\n", printable(word));
  return kDone;
}

int run(int argc, char** argv) {
  const SystemClock clock;
  Context context(clock);
  CLI::App app("Administers an itif appliance.", "itifctl");
  ValueHints hints;
  CommandLine line{app, context, hints};
  app.require_subcommand(1);
  app.fallthrough();  // accepts global options after the command, too
  app.set_version_flag("--version", std::string("itifctl ") + ITIF_VERSION);
  add_globals(line);
  add_tenant_commands(line);
  add_group_commands(line);
  add_figure_commands(line);
  add_watch_commands(line);
  add_drain_commands(line);
  add_handover_command(line);
  add_infer_command(line);
  add_local_commands(line);
  add_doctor_command(line);
  refuse_empty_values(app);
  // After all subcommands are made: they would inherit the footer.
  app.footer(
      "Exit codes: 0 done, 1 refused, 2 usage, 3 unreachable, 4 timed out, 5 local file.\n"
      "Examples:\n"
      "  itifctl tenant add sentiment --model /models/bert-sst2\n"
      "  itifctl infer sentiment \"a fine film\"\n"
      "  itifctl stats --watch");

  const std::span<char*> arguments(argv, static_cast<size_t>(argc));
  if (argc >= 3 && std::string_view(argv[1]) == "__complete" && std::string_view(argv[2]) == "--")
    return print_completions(line, arguments.subspan(3));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const auto unknown = app.remaining();
    if (e.get_name() == "RequiredError" && !unknown.empty()) {
      fmt::print(stderr, "itifctl: '{}' is not a command: `itifctl --help` lists them\n",
                 printable(unknown[0]));
      return kUsage;
    }
    // CLI11 returns 0 for --help and --version; its error numbers differ from ours.
    return app.exit(e) == 0 ? kDone : kUsage;
  }
  return context.action ? context.action() : kUsage;
}

}  // namespace
}  // namespace itif::ctl

int main(int argc, char** argv) {
  try {
    return itif::ctl::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "itifctl: unexpected failure: {}\n", e.what());
    return itif::ctl::kRefused;
  }
}
