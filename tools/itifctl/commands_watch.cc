// itifctl tenant stages, bottleneck, trace: the way of requests through the appliance, and what
// limits it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "base/units.h"
#include "chrome_trace.h"
#include "commands.h"
#include "stop_signals.h"
#include "table.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kLongestIntervalNs = 3600 * kSecondNs;
constexpr std::chrono::milliseconds kTracePoll{50};
constexpr uint32_t kMaxTraced = 1000;

std::string percent_of(double part) {
  return fmt::format("{:.0f} %", 100 * part);
}

// Times of microseconds matter here, where duration_cell() shows "-" for 0.
std::string ms_of(uint64_t ns) {
  return fmt::format("{:.3f} ms", static_cast<double>(ns) * 1e-6);
}

void show_stages(const json& document) {
  using enum Table::Align;
  Table table(
      {{"STAGE"}, {"MEAN", kRight}, {"OF TOTAL", kRight}, {"P50", kRight}, {"P99", kRight}});
  const json stages = document.value("stages", json::array());
  const double total = stages.empty() ? 0 : stages.back().value("mean_ns", 0.0);
  for (const json& s : stages)
    table.add({text_cell(s, "stage"), ms_of(s.value("mean_ns", uint64_t{0})),
               total > 0 ? percent_of(s.value("mean_ns", 0.0) / total) : "-",
               ms_of(s.value("p50_ns", uint64_t{0})), ms_of(s.value("p99_ns", uint64_t{0}))});
  fmt::print("{} answered requests of {}\n{}", count_cell(document, "requests"),
             text_cell(document, "name"), table.text());
}

void add_stages(CommandLine& line) {
  auto tenant = std::make_shared<std::string>();
  Context& context = line.context;
  CLI::App* command = line.app.get_subcommand("tenant")->add_subcommand(
      "stages", "Show how long a tenant's requests spend in each stage");
  add_tenant_argument(line, command, *tenant);
  command->footer(
      "Since the tenant's start. docs/operations.md explains the stages.\n"
      "Example:\n  itifctl tenant stages sentiment");
  command->callback([&context, tenant] {
    context.action = [&context, tenant] {
      const auto answer = context.call("tenant.stages", {{"tenant", tenant_ref(*tenant)}});
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        show_stages(*answer);
      return static_cast<int>(kDone);
    };
  });
}

void show_bottleneck(const json& document) {
  using enum Table::Align;
  Table table({{"GROUP"},
               {"LIMIT"},
               {"REQUESTS/S", kRight},
               {"REFUSED/S", kRight},
               {"LATENCY", kRight},
               {"BATCH TIME", kRight},
               {"GUE", kRight},
               {"DEVICE", kRight},
               {"TURNS", kRight},
               {"INTAKE", kRight},
               {"SHARE", kRight},
               {"BATCH", kRight},
               {"WORKER", kRight},
               {"QUEUE", kRight},
               {"COMPUTE", kRight},
               {"LOST", kRight}});
  std::string reasons;
  for (const json& g : document.value("groups", json::array())) {
    table.add({text_cell(g, "name"), text_cell(g, "limit"), rate_cell(g, "requests_per_s"),
               rate_cell(g, "refused_per_s"), duration_cell(g, "latency_ns"),
               duration_cell(g, "batch_ns"), gue_cell(g, "gue"),
               percent_of(g.value("device_busy", 0.0)), percent_of(g.value("turn_wait", 0.0)),
               percent_of(g.value("intake_busy", 0.0)),
               percent_of(g.value("share_percent", 0.0) / 100),
               percent_of(g.value("batch_fullness", 0.0)), percent_of(g.value("worker_busy", 0.0)),
               duration_cell(g, "queue_ns"), duration_cell(g, "compute_ns"),
               count_cell(g, "lost_datagrams")});
    reasons += fmt::format("{}: {}: {}\n", printable(text_cell(g, "name")),
                           printable(text_cell(g, "limit")), printable(text_cell(g, "because")));
  }
  fmt::print("{}{}{}", table.text(), reasons.empty() ? "" : "\n", reasons);
}

void add_bottleneck(CommandLine& line) {
  struct Options {
    std::string group;
    std::string interval = "1s";
  };
  auto options = std::make_shared<Options>();
  Context& context = line.context;
  CLI::App* command =
      line.app.add_subcommand("bottleneck", "Show what limits each group now, and why");
  command->add_option("GROUP", options->group, "name of a group; default: all");
  command->add_option("--interval", options->interval, "time to look at, 1s to 1h [1s]")
      ->type_name("TIME")
      ->check(duration_text())
      ->check(CLI::Validator(
          [](std::string& text) {
            const uint64_t ns = parse_duration_ns(text).value_or(kSecondNs);
            return ns < kSecondNs || ns > kLongestIntervalNs
                       ? std::string("must be at least 1s and at most 1h")
                       : std::string();
          },
          "", "interval"));
  command->footer(
      "network, cpu, device, share (of the device), data_plane (its limits refuse requests), "
      "quota\n"
      "(of tenants) or clients, which send less than the group could serve. docs/operations.md "
      "has\n"
      "the rules and what to do.\n"
      "Examples:\n  itifctl bottleneck\n  itifctl --json bottleneck --interval 5s");
  command->callback([&context, options] {
    context.action = [&context, options] {
      json args = json::object();
      if (!options->group.empty()) args["group"] = options->group;
      const uint64_t interval_ns = parse_duration_ns(options->interval).value_or(kSecondNs);
      if (interval_ns != kSecondNs) args["interval_ns"] = interval_ns;
      // The first call begins the interval, the second one ends it.
      auto answer = context.call("group.bottleneck", args);
      if (!answer) return answer.error();
      std::this_thread::sleep_for(std::chrono::nanoseconds(interval_ns + kSecondNs / 100));
      answer = context.call("group.bottleneck", args);
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        show_bottleneck(*answer);
      return static_cast<int>(kDone);
    };
  });
}

void show_traced(const json& request) {
  using enum Table::Align;
  fmt::print("request {} of session {}: {}, {} tokens, worker {}\n",
             text_cell(request, "request_id"), text_cell(request, "session"),
             printable(text_cell(request, "status")), text_cell(request, "tokens"),
             text_cell(request, "worker"));
  Table table({{"  SINCE ARRIVAL", kRight}, {"STAGE"}, {"TOOK", kRight}});
  uint64_t before_ns = 0;
  for (const json& point : request.value("points", json::array())) {
    const uint64_t at_ns = point.value("since_ns", uint64_t{0});
    table.add({ms_of(at_ns), stage_before(text_cell(point, "point")),
               ms_of(at_ns - std::min(at_ns, before_ns))});
    before_ns = at_ns;
  }
  fmt::print("{}\n", table.text());
  std::fflush(stdout);
}

struct TraceOptions {
  std::string tenant;
  uint32_t requests = 1;
  std::string chrome;
  std::string wait = "10s";
};

// Writes a trace without requests, too. `reports`: no error has been printed.
int write_chrome(Context& context, const std::string& path, const std::string& tenant,
                 const json& requests, bool reports) {
  std::ofstream file(path, std::ios::trunc);
  file << chrome_trace(tenant, requests).dump(1) << "\n";
  file.close();
  if (file || !reports) return file ? kDone : kLocalFile;
  return context.fail(kLocalFile, {Code::kPermission, fmt::format("cannot write {}", path)});
}

json results_of(const json& started, const json& requests) {
  return {
      {"id", started.value("id", 0u)}, {"name", started.value("name", "")}, {"requests", requests}};
}

// Reads the records as they come. Ends when all have come, or the wait is over, or the tenant has
// been removed, or a signal has come.
int follow(Context& context, const TraceOptions& options, const json& started, json& requests,
           StopSignals& signals) {
  const uint64_t wait_ns = parse_duration_ns(options.wait).value_or(10 * kSecondNs);
  const uint64_t begin_ns = context.clock().now_ns();
  for (;;) {
    const auto answer = context.call(
        "trace.read", {{"trace", started.value("trace", 0u)}, {"first", requests.size()}});
    if (!answer) return answer.error();
    for (const json& request : answer->value("requests", json::array())) {
      if (!context.globals.json) show_traced(request);
      requests.push_back(request);
    }
    context.keep_results(results_of(started, requests));
    if (requests.size() >= options.requests) return kDone;
    if (answer->value("removed", false))
      return context.fail(
          kRefused, {Code::kNotFound, fmt::format("the tenant was removed after {} of {} requests",
                                                  requests.size(), options.requests)});
    if (signals.caught())
      return context.fail(kTimedOut,
                          {Code::kUnavailable, fmt::format("interrupted after {} of {} requests",
                                                           requests.size(), options.requests)});
    if (context.clock().now_ns() - begin_ns >= wait_ns)
      return context.fail(
          kTimedOut,
          {Code::kUnavailable, fmt::format("{} of {} requests came within {}", requests.size(),
                                           options.requests, options.wait)});
    std::this_thread::sleep_for(kTracePoll);
  }
}

int run_trace(Context& context, const TraceOptions& options) {
  StopSignals signals;  // a trace that is left open keeps others out for a while
  // A file that cannot be written is better known before the wait. It keeps its content until then.
  std::error_code ignored;
  const bool made_file =
      !options.chrome.empty() && !std::filesystem::exists(options.chrome, ignored);
  if (!options.chrome.empty() && !std::ofstream(options.chrome, std::ios::app))
    return context.fail(kLocalFile,
                        {Code::kPermission, fmt::format("cannot write {}", options.chrome)});
  const auto started = context.call(
      "trace.start", {{"tenant", tenant_ref(options.tenant)}, {"requests", options.requests}});
  if (!started) {
    if (made_file) std::filesystem::remove(options.chrome, ignored);
    return started.error();
  }
  json requests = json::array();
  int code = follow(context, options, *started, requests, signals);
  // Lets the next trace begin at once. Otherwise it would begin when this one is abandoned.
  const json trace = {{"trace", started->value("trace", 0u)}};
  if (code == kDone) {
    const auto stopped = context.call("trace.stop", trace);
    if (!stopped) code = stopped.error();
  } else if (code == kTimedOut || code == kRefused) {
    context.try_call("trace.stop", kQuickTimeoutNs, trace);
  }
  if (!options.chrome.empty()) {
    const int written =
        write_chrome(context, options.chrome, started->value("name", ""), requests, code == kDone);
    if (code == kDone) code = written;
  }
  if (context.globals.json && code == kDone) context.print_json(results_of(*started, requests));
  signals.end();
  return code;
}

void add_trace(CommandLine& line) {
  auto options = std::make_shared<TraceOptions>();
  Context& context = line.context;
  CLI::App* command =
      line.app.add_subcommand("trace", "Follow a tenant's next requests through all stages");
  add_tenant_argument(line, command, options->tenant);
  command->add_option("--requests", options->requests, "number of requests, 1 to 1000 [1]")
      ->type_name("N")
      ->check(whole_number(1, kMaxTraced));
  command->add_option("--wait", options->wait, "longest wait for these requests [10s]")
      ->type_name("TIME")
      ->check(duration_text());
  CLI::Option* chrome =
      command
          ->add_option("--chrome", options->chrome,
                       "also write them to FILE, for Perfetto or chrome://tracing")
          ->type_name("FILE");
  line.hints[chrome] = {ValueHint::Kind::kFile};
  command->footer(
      "Requests that arrive from now on, also those that are refused. One trace at a time on an\n"
      "appliance. If too few come, those that did are shown (--json: beside the error) and "
      "written\n"
      "to FILE, which is then valid even without requests.\n"
      "Examples:\n  itifctl trace sentiment\n"
      "  itifctl trace sentiment --requests 100 --chrome trace.json");
  command->callback([&context, options] {
    context.action = [&context, options] { return run_trace(context, *options); };
  });
}

}  // namespace

void add_watch_commands(CommandLine& line) {
  add_stages(line);
  add_bottleneck(line);
  add_trace(line);
}

}  // namespace itif::ctl
