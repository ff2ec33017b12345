// itifctl drain, undrain.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "table.h"

namespace itif::ctl {

using nlohmann::json;

void add_drain_commands(CommandLine& line) {
  Context& context = line.context;
  auto within = std::make_shared<std::string>("10s");
  CLI::App* drain = line.app.add_subcommand("drain", "Refuse new requests, answer accepted ones");
  drain->add_option("--within", *within, "longest wait for the answers [10s]")
      ->type_name("TIME")
      ->check(duration_text());
  drain->footer(
      "Exit code 4 if requests are still in flight after that time. Example:\n"
      "  itifctl drain --within 30s && systemctl stop itifd");
  drain->callback([&context, within] {
    context.action = [&context, within] {
      const uint64_t timeout_ns = parse_duration_ns(*within).value_or(0);
      const auto answer =
          context.call("drain", {{"timeout_ns", timeout_ns}}, timeout_ns + kQuickTimeoutNs);
      if (!answer) return answer.error();
      const bool drained = answer->value("drained", false);
      if (context.globals.json)
        context.print_json(*answer);
      else if (drained)
        fmt::print("drained: nothing is in flight\n");
      else
        fmt::print("draining: {} requests are still in flight\n", count_cell(*answer, "in_flight"));
      return static_cast<int>(drained ? kDone : kTimedOut);
    };
  });

  CLI::App* undrain = line.app.add_subcommand("undrain", "Accept requests again");
  undrain->footer("Example:\n  itifctl undrain");
  undrain->callback([&context] {
    context.action = [&context] {
      const auto answer = context.call("undrain", json::object(), kLoadTimeoutNs);
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        fmt::print("undrained: requests are accepted\n");
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace itif::ctl
