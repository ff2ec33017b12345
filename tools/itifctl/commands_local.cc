// itifctl keygen, config check, registry accept, completion: commands that need no server.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "commands.h"
#include "config/config.h"
#include "control/curve.h"
#include "control/hex.h"
#include "control/registry_mark.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

std::string default_key_name() {
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  const char* user = std::getenv("USER");
  return fmt::format("{}@{}", user != nullptr ? user : "admin", host);
}

void add_keygen(CommandLine& line) {
  struct Options {
    std::string path;
    std::string name = default_key_name();
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      line.app.add_subcommand("keygen", "Make a CURVE key pair for control over TCP");
  CLI::Option* file = command
                          ->add_option("FILE", options->path,
                                       "writes the pair to FILE (0600), the public key to FILE.pub")
                          ->required();
  line.hints[file] = {ValueHint::Kind::kFile};
  command->add_option("--name", options->name, "comment that says whose key it is")
      ->type_name("TEXT");
  command->footer(
      "Examples:\n  itifctl keygen /etc/itif/server.key --name appliance-1\n"
      "  itifctl keygen ~/.config/itif/admin.key");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] {
      const control::CurveKeyPair pair = control::make_curve_key_pair();
      const Status written = control::write_key_pair(options->path, printable(options->name), pair);
      if (!written) return context.fail(kLocalFile, written.error());
      const std::string public_hex = control::to_hex(std::as_bytes(std::span(pair.public_key)));
      if (context.globals.json)
        context.print_json({{"file", options->path}, {"public_key", public_hex}});
      else
        fmt::print(
            "public key  {}\nkey pair    {}\n"
            "For a server: set control.curve_secret_file to the key pair's file. For a client: add "
            "the line in {}.pub to the server's control.authorized_keys_file.\n",
            public_hex, options->path, options->path);
      return static_cast<int>(kDone);
    };
  });
}

void add_config(CommandLine& line) {
  auto path = std::make_shared<std::string>();
  CLI::App* config = line.app.add_subcommand("config", "Check itifd's configuration file");
  config->require_subcommand(1);
  CLI::App* check =
      config->add_subcommand("check", "Read a configuration file as itifd does and report errors");
  line.hints[check->add_option("FILE", *path, "itifd.conf")->required()] = {ValueHint::Kind::kFile};
  check->footer(
      "Exit code 5 if the file is invalid. Example:\n  itifctl config check /etc/itif/itifd.conf");
  Context& context = line.context;
  check->callback([&context, path] {
    context.action = [&context, path] {
      const auto loaded = config::load(*path);
      if (!loaded) return context.fail(kLocalFile, loaded.error());
      if (context.globals.json)
        context.print_json({{"file", *path}, {"ports", loaded->ports.size()}});
      else
        fmt::print("{}: good ({} port{}, control on {})\n", *path, loaded->ports.size(),
                   loaded->ports.size() == 1 ? "" : "s", loaded->control.endpoint);
      return static_cast<int>(kDone);
    };
  });
}

void add_registry(CommandLine& line) {
  auto path = std::make_shared<std::string>();
  CLI::App* registry =
      line.app.add_subcommand("registry", "The registry of an itifd that is stopped");
  registry->require_subcommand(1);
  CLI::App* accept = registry->add_subcommand(
      "accept", "Let the next start use the registry as it is: an older copy, or none");
  line.hints[accept->add_option("DIR", *path, "control.state_dir")->required()] = {
      ValueHint::Kind::kDirectory};
  accept->footer(
      "itifd refuses to start if its registry is missing, or older than it was. Restore a backup "
      "first, if there is one. Ids of tenants are not used again in any case. Example:\n"
      "  itifctl registry accept /var/lib/itif");
  Context& context = line.context;
  accept->callback([&context, path] {
    context.action = [&context, path] {
      if (const Status done = control::accept_registry(*path); !done)
        return context.fail(kLocalFile, done.error());
      if (context.globals.json)
        context.print_json({{"state_dir", *path}});
      else
        fmt::print("The next start uses the registry in {} as it is.\n", *path);
      return static_cast<int>(kDone);
    };
  });
}

void add_completion(CommandLine& line) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command =
      line.app.add_subcommand("completion", "Print a completion script for a shell");
  const std::vector<std::string> shells = {"bash", "zsh"};
  line.hints[command->add_option("SHELL", *shell, "bash or zsh")
                 ->required()
                 ->check(CLI::IsMember(shells))] = {ValueHint::Kind::kChoice, shells};
  command->footer(
      "Examples:\n  source <(itifctl completion bash)\n"
      "  itifctl completion bash > /etc/bash_completion.d/itifctl");
  Context& context = line.context;
  command->callback([&context, shell] {
    context.action = [shell] {
      fmt::print("{}", completion_script(*shell));
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace

void add_local_commands(CommandLine& line) {
  add_keygen(line);
  add_config(line);
  add_registry(line);
  add_completion(line);
}

}  // namespace itif::ctl
