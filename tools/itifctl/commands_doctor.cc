// itifctl doctor: examines the machine for itifd, with the command that mends each fault.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "commands.h"
#include "config/config.h"
#include "doctor/report.h"

namespace itif::ctl {
namespace {

constexpr const char* kDefaultConfig = "/etc/itif/itifd.conf";
constexpr uint64_t kAnswerTimeoutNs = 1'000'000'000;

struct Options {
  std::string config;
  std::string sysroot;  // for tests
};

int examine(Context& context, const Options& options) {
  doctor::Machine machine{.files = doctor::Files(options.sysroot),
                          .config_file = options.config,
                          .config = {},
                          .health = {}};
  std::error_code ignored;
  if (machine.config_file.empty() && options.sysroot.empty() &&
      std::filesystem::exists(kDefaultConfig, ignored))
    machine.config_file = kDefaultConfig;
  if (!machine.config_file.empty()) {
    auto loaded = config::load(machine.config_file);
    if (!loaded) return context.fail(kLocalFile, loaded.error());
    machine.config = std::move(*loaded);
  }
  // Files below another root are another machine's, whose itifd cannot be asked.
  if (options.sysroot.empty())
    if (const auto answer = context.try_call("health", context.timeout_ns(kAnswerTimeoutNs)))
      machine.health = answer->value("appliance", nlohmann::json());
  const doctor::Checks checks = doctor::run_checks(machine);
  if (context.globals.json)
    context.print_json(doctor::report_json(machine, checks));
  else
    fmt::print("{}", doctor::report_text(machine, checks));
  return doctor::count_of(checks, doctor::Verdict::kFail) > 0 ? kRefused : kDone;
}

}  // namespace

void add_doctor_command(CommandLine& line) {
  auto options = std::make_shared<Options>();
  CLI::App* command = line.app.add_subcommand(
      "doctor", "Examine this machine for itifd, with the command that mends each fault");
  line.hints[command
                 ->add_option(
                     "--config", options->config,
                     fmt::format("itifd's configuration [{}, if there is one]", kDefaultConfig))
                 ->type_name("FILE")] = {ValueHint::Kind::kFile};
  command->add_option("--sysroot", options->sysroot)->group("");  // hidden
  command->footer(
      "Needs no itifd. One that answers is asked for its ports' offloads. Run it as the user that\n"
      "starts itifd. Exit code 1 if a check fails. Example:\n"
      "  sudo itifctl doctor --config /etc/itif/itifd.conf");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] { return examine(context, *options); };
  });
}

}  // namespace itif::ctl
