// itifctl handover.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/units.h"
#include "commands.h"

namespace itif::ctl {

using nlohmann::json;

void add_handover_command(CommandLine& line) {
  Context& context = line.context;
  struct Options {
    std::string binary, config, within = "10m";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      line.app.add_subcommand("handover", "Start a new itifd, which takes over when it has loaded all models");
  line.hints[command
                 ->add_option(
                     "--binary", options->binary,
                     "the program to start [the file of the running itifd, without symbolic links]")
                 ->type_name("FILE")] = {ValueHint::Kind::kFile};
  line.hints[command
                 ->add_option("--config", options->config,
                              "its configuration [the running itifd's]")
                 ->type_name("FILE")] = {ValueHint::Kind::kFile};
  command->add_option("--within", options->within, "longest time until the new itifd serves [10m]")
      ->type_name("TIME")
      ->check(duration_text());
  command->footer(
      "The running itifd loads the models into a new process, passes on its ports and this\n"
      "endpoint, answers what it accepted, and ends. If the new process fails, the running one\n"
      "goes on. Examples:\n"
      "  itifctl handover\n"
      "  itifctl handover --binary /usr/local/bin/itifd --config /etc/itif/itifd.conf");
  command->callback([&context, options] {
    context.action = [&context, options] {
      json args = {{"timeout_ns", parse_duration_ns(options->within).value_or(0)}};
      // The server's working directory is another.
      if (!options->binary.empty()) args["binary"] = std::filesystem::absolute(options->binary);
      if (!options->config.empty()) args["config"] = std::filesystem::absolute(options->config);
      const auto answer = context.call_long("handover", args);
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        fmt::print("handed over to process {}, {}\n", answer->value("pid", 0),
                   answer->value("binary", ""));
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace itif::ctl
