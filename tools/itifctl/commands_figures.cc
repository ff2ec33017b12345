// itifctl stats, device, health, events: the state and counters of the appliance.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <thread>

#include "base/units.h"
#include "commands.h"
#include "table.h"

namespace itif::ctl {
namespace {

using nlohmann::json;
using Show = int (*)(const json& document);

constexpr int kEventPollMs = 1000;

int show_stats(const json& document) {
  using enum Table::Align;
  Table table({{"TENANT"},
               {"RECEIVED", kRight},
               {"ANSWERED", kRight},
               {"REFUSED", kRight},
               {"IN FLIGHT", kRight},
               {"REQUESTS/S", kRight},
               {"P50", kRight},
               {"P99", kRight},
               {"P99.9", kRight},
               {"LATE", kRight}});
  // LATE: missed the request's deadline, or answered later than the tenant's objective.
  const auto add = [&](const std::string& name, const json& s) {
    table.add({name, count_cell(s, "received"), count_cell(s, "answered"),
               with_thousands(sum_of(s.value("refused", json::object()))),
               count_cell(s, "in_flight"), rate_cell(s, "requests_per_s"),
               duration_cell(s, "p50_ns"), duration_cell(s, "p99_ns"), duration_cell(s, "p999_ns"),
               with_thousands(s.value("deadline_missed", uint64_t{0}) +
                              s.value("slo_missed", uint64_t{0}))});
  };
  for (const json& s : document.value("tenants", json::array())) add(text_cell(s, "name"), s);
  const json total = document.value("total", json::object());
  add("total", total);
  std::string notes;
  const json reasons = total.value("refused", json::object());
  if (sum_of(reasons) > 0) {
    for (const auto& [reason, count] : reasons.items())
      notes += fmt::format("{}{} {}", notes.empty() ? "refused: " : ", ", printable(reason),
                           count.dump());
    notes += "\n";
  }
  const auto lost = document.value("lost_log_lines", uint64_t{0});
  if (lost > 0) notes += fmt::format("lost lines of itifd's log: {}\n", with_thousands(lost));
  fmt::print("{}{}", table.text(), notes);
  return kDone;
}

int show_device(const json& document) {
  Facts facts;
  for (const auto& [name, value] : document.items()) {
    const bool bytes = name.ends_with("_bytes") && value.is_number();
    facts.add(bytes ? name.substr(0, name.size() - 6) : name,
              bytes ? bytes_cell(document, name.c_str()) : text_cell(document, name.c_str()));
  }
  fmt::print("{}", facts.text());
  return kDone;
}

int show_health(const json& document) {
  Facts facts;
  const std::string status = text_cell(document, "status");
  facts.add("status", status);
  facts.add("up since", time_cell(document, "started_unix_ns"));
  const json tenants = document.value("tenants", json::object());
  facts.add("tenants", fmt::format("{} serving, {} paused, {} loading, {} failed",
                                   count_cell(tenants, "serving"), count_cell(tenants, "paused"),
                                   count_cell(tenants, "loading"), count_cell(tenants, "failed")));
  if (document.contains("running"))
    facts.add("working on", fmt::format("{}, {} waiting", text_cell(document, "running"),
                                        count_cell(document, "waiting")));
  for (const json& failed : document.value("failed", json::array()))
    facts.add("failed", text_cell(failed, "name") + ": " + text_cell(failed, "message"));
  if (const std::string registry = document.value("registry", "ok"); registry != "ok")
    facts.add("problem", registry);
  const json appliance = document.value("appliance", json::object());
  if (appliance.is_object() && appliance.contains("problems") && appliance["problems"].is_array()) {
    for (const json& problem : appliance["problems"])
      facts.add("problem", problem.is_string() ? problem.get<std::string>() : problem.dump());
  }
  if (appliance.is_object() && appliance.contains("ports") && appliance["ports"].is_array()) {
    for (const json& port : appliance["ports"]) {
      std::string addresses;
      for (const json& address : port.value("addresses", json::array()))
        addresses += " " + (address.is_string() ? address.get<std::string>() : address.dump());
      facts.add("port",
                fmt::format("{} ({}), link {}, MTU {},{}", text_cell(port, "device"),
                            text_cell(port, "driver"), port.value("link_up", false) ? "up" : "down",
                            text_cell(port, "mtu"), addresses));
    }
  }
  fmt::print("{}", facts.text());
  return kDone;
}

int health_code(const json& document) {
  return document.value("status", "") == "ok" ? kDone : kRefused;
}

void add_document(CommandLine& line, CLI::App* command, const char* op, Show show) {
  Context& context = line.context;
  command->callback([&context, command, op, show] {
    if (!command->get_subcommands().empty()) return;
    context.action = [&context, op, show] {
      const auto answer = context.call(op);
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        show(*answer);
      return show == show_health ? health_code(*answer) : static_cast<int>(kDone);
    };
  });
}

void add_stats(CommandLine& line) {
  struct Options {
    bool watch = false;
    std::string interval = "1s";
    uint32_t count = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      line.app.add_subcommand("stats", "Requests and latencies, per tenant and in total");
  command->add_flag("--watch,-w", options->watch, "repeat until interrupted");
  command->add_option("--interval", options->interval, "with --watch: time between tables [1s]")
      ->type_name("TIME")
      ->check(duration_text());
  command->add_option("--count", options->count, "with --watch: end after N tables")
      ->type_name("N")
      ->check(whole_number(1, UINT32_MAX));
  command->footer(
      "Examples:\n  itifctl stats\n  itifctl stats --watch --interval 5s\n"
      "  itifctl --json stats | jq .total.p99_ns");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] {
      const uint64_t interval_ns = parse_duration_ns(options->interval).value_or(1'000'000'000);
      const bool terminal = ::isatty(STDOUT_FILENO) == 1;
      for (uint32_t n = 1;; ++n) {
        const auto answer = context.call("stats");
        if (!answer) return answer.error();
        if (context.globals.json) {
          // --watch prints one document per line, so that a program can read line by line.
          fmt::print("{}\n", options->watch ? answer->dump() : answer->dump(2));
        } else {
          if (options->watch && terminal) fmt::print("\033[H\033[2J");
          if (options->watch) fmt::print("{:%H:%M:%S}\n", fmt::localtime(std::time(nullptr)));
          show_stats(*answer);
        }
        std::fflush(stdout);
        if (!options->watch || n == options->count) return static_cast<int>(kDone);
        std::this_thread::sleep_for(std::chrono::nanoseconds(interval_ns));
      }
    };
  });
}

void print_event(const json& event) {
  std::string text;
  if (event.contains("stats")) {
    const json total = event["stats"].value("total", json::object());
    fmt::print("{} stats answered={} requests/s={} p50={} p99={}\n", time_cell(event, "unix_ns"),
               count_cell(total, "answered"), rate_cell(total, "requests_per_s"),
               duration_cell(total, "p50_ns"), duration_cell(total, "p99_ns"));
    return;
  }
  for (const auto& [name, value] : event.items()) {
    if (name == "v" || name == "event" || name == "unix_ns") continue;
    text += fmt::format(" {}={}", printable(name), printable(text_cell(event, name.c_str())));
  }
  fmt::print("{} {}{}\n", time_cell(event, "unix_ns"), printable(text_cell(event, "event")), text);
}

void add_events(CommandLine& line) {
  struct Options {
    bool stats = false;
    uint32_t count = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      line.app.add_subcommand("events", "Print the appliance's events until interrupted");
  command->add_flag("--stats", options->stats, "also print statistics once a second");
  command->add_option("--count", options->count, "end after N messages")
      ->type_name("N")
      ->check(whole_number(1, UINT32_MAX));
  command->footer(
      "Works only on the appliance's own machine (ipc). Examples:\n  itifctl events\n"
      "  itifctl --json events --stats");
  Context& context = line.context;
  command->callback([&context, options] {
    context.action = [&context, options] {
      const auto health = context.call("health");
      if (!health) return health.error();
      const std::string endpoint = health->value("events_endpoint", "");
      if (endpoint.empty())
        return context.fail(kRefused, {Code::kUnsupported,
                                       "this itifd publishes no events: set its "
                                       "control.events_endpoint"});
      auto stream = control::EventStream::subscribe(endpoint, options->stats);
      if (!stream) return context.fail(kUnreachable, stream.error().error);
      for (uint32_t n = 0; options->count == 0 || n < options->count;) {
        const auto message = (*stream)->next(kEventPollMs);
        if (!message) continue;
        ++n;
        if (context.globals.json)
          fmt::print("{}\n", message->dump());
        else
          print_event(*message);
        std::fflush(stdout);
      }
      return static_cast<int>(kDone);
    };
  });
}

void add_device_reset(CommandLine& line, CLI::App* device) {
  CLI::App* reset =
      device->add_subcommand("reset", "Restart a failed device and move its tenants back to it");
  reset->footer(
      "The host serves meanwhile. Tenants still on the device move to the host first.\n"
      "A GPU may refuse to be used by this process again. The host then keeps serving, and\n"
      "`itifctl handover` starts a process that can use the GPU, while the host serves on.\n"
      "Example:\n  itifctl device reset");
  Context& context = line.context;
  reset->callback([&context] {
    context.action = [&context] {
      const auto answer = context.call_long("device.reset", json::object());
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        show_device(*answer);
      return static_cast<int>(kDone);
    };
  });
}

}  // namespace

void add_figure_commands(CommandLine& line) {
  add_stats(line);
  add_drops(line);
  CLI::App* device = line.app.add_subcommand("device", "The compute device, and why it was chosen");
  device->footer("Example:\n  itifctl device");
  add_document(line, device, "device", show_device);
  add_device_reset(line, device);
  CLI::App* health =
      line.app.add_subcommand("health", "State of the appliance; exit code 1 if not ok");
  health->footer(
      "Examples:\n  itifctl health\n  until itifctl health >/dev/null; do sleep 1; done");
  add_document(line, health, "health", show_health);
  add_events(line);
}

}  // namespace itif::ctl
