// itif-bench: the command line over benches.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/log.h"
#include "benches.h"
#include "commit.h"
#include "device/host/pool_wait.h"
#include "execution.h"
#include "machine.h"

namespace {

using namespace itif;

struct Subcommand {
  const char* name;
  const char* description;
  const char* limit_name;
  Status (*run)(const bench::BenchOptions& options, bench::Report& report);
};
constexpr Subcommand kSubcommands[] = {
    {"gemm", "GEMMs through the device, against oneDNN alone (ratio: share of its rate)", "bare",
     bench::bench_gemm},
    {"gemm-choice",
     "the GEMMs of several tenants in turn or at once (*: chosen), against one of as many rows",
     "one GEMM", bench::bench_gemm_choice},
    {"encoder", "BERT-base and ViT-base forward passes, against their GEMMs alone through oneDNN",
     "floor", bench::bench_encoder},
    {"operators",
     "operators besides GEMMs, against a copy of as many bytes (attention: against GEMMs)", "limit",
     bench::bench_operators},
    {"tenants", "Table 5.2: 2 to 64 tenants, by execution mode, against their GEMMs alone", "floor",
     bench::bench_tenants},
    {"decoder", "a step of Marian's decoder, tenants together and in turn, against its GEMMs alone",
     "floor", bench::bench_decoder},
    {"batching", "Figures 5.2 to 5.4: ALBERT-large, 2 to 64 requests of 2 to 5 tenants, by mode",
     "", bench::bench_batching},
    {"mixed", "64 requests of mixed lengths, by planner, against their GEMMs without padding",
     "floor", bench::bench_mixed},
    {"scaling", "tokens/s and memory against tenants, layers, hidden size and length", "floor",
     bench::bench_scaling},
    {"plan", "planning 64 requests, by planner, against 2 % of the time of the batch", "2 %",
     bench::bench_plan},
};

}  // namespace

int main(int argc, char** argv) {
  device::limit_pool_spinning(argv);
  log::set_level(log::Level::kWarning);
  if (argc == 4 && std::string_view(argv[1]) == "tenant-process")
    return bench::run_tenant_process(argv[2], static_cast<uint32_t>(std::stoul(argv[3])));
  CLI::App app{
      "Times parts of itif on this machine. Each bench checks its results before it times them.\n"
      "Example: itif-bench encoder --quick --json encoder.json"};
  bench::BenchOptions options;
  options.dtypes = {"f32", "bf16"};
  std::string json_path;
  app.require_subcommand(1);
  for (const Subcommand& subcommand : kSubcommands) {
    CLI::App* command = app.add_subcommand(subcommand.name, subcommand.description);
    command->add_flag("--quick", options.quick, "a few repetitions only");
    command->add_option("--json", json_path, "also write the figures to this file");
    command->add_option("--threads", options.threads, "default: all CPUs")
        ->check(CLI::Range(1u, 1024u));
    command->add_option("--dtype", options.dtypes, "f32, bf16 or both")
        ->delimiter(',')
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->capture_default_str();
    command->add_option("--case", options.cases, "only the row of this name; may be repeated");
  }
  CLI11_PARSE(app, argc, argv);

  for (const Subcommand& subcommand : kSubcommands) {
    if (!app.got_subcommand(subcommand.name)) continue;
    bench::Report report(subcommand.name, subcommand.limit_name);
    fmt::print("itif-bench {}, commit {}, on {}\n", subcommand.name, bench::kCommit,
               bench::describe(bench::this_machine()));
    Status status = subcommand.run(options, report);
    if (status && !json_path.empty()) status = report.write_json(json_path);
    if (!status) {
      fmt::print(stderr, "itif-bench: {}\n", status.error().message);
      return 1;
    }
  }
  return 0;
}
