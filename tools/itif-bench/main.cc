// itif-bench: the command line of benches.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "all.h"
#include "base/log.h"
#include "benches.h"
#include "commit.h"
#include "device/compute_types.h"
#include "device/host/pool_wait.h"
#include "peers/execution_mps.h"
#include "report/machine.h"
#include "report/results.h"
#include "report/summary.h"

namespace {

using namespace itif;

// For benches without kernels::Attention; a decoder's steps use cached attention.
constexpr bool kNoAttention = false, kAttention = true;
constexpr bool kChoosesFusion = true;
constexpr bool kRunsForSeconds = true;
constexpr bool kIsScript = true, kNeedsRoot = true;
constexpr bench::Bench kBenches[] = {
    {"gemm", "GEMMs through the device, against oneDNN or cuBLAS alone (ratio: share of that rate)",
     "bare", bench::bench_gemm, kNoAttention},
    {"gemm-choice",
     "GEMMs of several tenants sequentially and concurrently, and the scheduler's choice, against "
     "one GEMM with all rows",
     "one GEMM", bench::bench_gemm_choice, kNoAttention},
    {"encoder", "BERT-base and ViT-base forward passes, against their GEMMs alone", "floor",
     bench::bench_encoder, kAttention, kChoosesFusion},
    {"operators",
     "Tables 5.3 and 5.4, Figure 5.5, and each operator against a copy of the same size "
     "(attention, Q/K/V: against GEMMs)",
     "limit", bench::bench_operators},
    {"gather",
     "token ids and pixels from packets, in place and copied first, against a copy of the same "
     "size",
     "copy", bench::bench_gather, kNoAttention},
    {"tenants", "Table 5.2: 2 to 64 tenants, by execution mode, against their GEMMs alone", "floor",
     bench::bench_tenants},
    {"decoder",
     "a step of Marian's decoder: tenants together and sequentially, and with finished sequences",
     "floor", bench::bench_decoder, kNoAttention},
    {"batching", "Figures 5.2 to 5.4: ALBERT-large, 2 to 64 requests of 2 to 5 tenants, by mode",
     "floor", bench::bench_batching},
    {"few-tokens", "up to 64 tenants with few tokens each, by mode, against their GEMMs alone",
     "floor", bench::bench_few_tokens},
    {"mixed", "64 requests of mixed lengths, by planner, against their GEMMs without padding",
     "floor", bench::bench_mixed, kAttention, kChoosesFusion},
    {"concat",
     "TCB's Figures 9 to 12: answers in time and utility against the rate, by planner and policy",
     "rate", bench::bench_concat},
    {"slots", "TCB's Figures 13 and 14: rows of 400 tokens in 1 to 10 slots, padded and packed",
     "limit", bench::bench_slots},
    {"cleaning",
     "TCB's early memory cleaning: generated sequences, batch by batch and scheduled by step, with "
     "K/V memory given back by batch, slot or sequence",
     "limit", bench::bench_cleaning, kNoAttention},
    {"sharing",
     "GSLICE's Table 1: size, load time, memory and number of tenants, with copies of their own "
     "and "
     "with shared weights",
     "alone", bench::bench_sharing},
    {"slices",
     "GSLICE's Figures 8 to 10, 15 and 16, Tables 2 and 3: one to four groups, by batch control "
     "and "
     "shares of the device",
     "", bench::bench_slices, kAttention, !kChoosesFusion, kRunsForSeconds},
    {"slab", "GSLICE's Figures 12c and 14: slab, aimd and fixed batches under latency objectives",
     "", bench::bench_slab, kAttention, !kChoosesFusion, kRunsForSeconds},
    {"components", "GSLICE's Figures 12a and 12b: what overlapping, zero copy and batching bring",
     "", bench::bench_components, kAttention, !kChoosesFusion, kRunsForSeconds},
    {"switch", "batches between which the share of the device changes, against batches without",
     "paper", bench::bench_switch},
    {"lora", "tokens/s of 1 to 512 LoRA adapters in one batch, against their base's", "base",
     bench::bench_lora},
    {"scaling", "tokens/s, latency and memory against tenants, layers, hidden size and length",
     "floor", bench::bench_scaling, kAttention, kChoosesFusion},
    {"plan", "planning time of 64 requests, by planner, against 2 % of the batch's run time", "2 %",
     bench::bench_plan},
    {"schedulers",
     "time of a batch policy's decision with 10 to 100,000 requests waiting, against 2 % of its "
     "batch's run time",
     "2 %", bench::bench_schedulers},
    {"ingest",
     "datagrams through a worker core: parse, verify, reassemble, hand over, answer; against "
     "receiving and freeing them",
     "rxonly", bench::bench_ingest, kNoAttention, !kChoosesFusion, kRunsForSeconds},
    {"overlap", "texts through the executor, with batches sequential and overlapped",
     "forward passes", bench::bench_overlap},
    {"swap",
     "latency of a whole appliance's tenants while others are added, updated and removed, and "
     "while "
     "a share of the device changes: runs tools/bench-swap, as root",
     "", bench::bench_swap, kNoAttention, !kChoosesFusion, kRunsForSeconds, kIsScript, kNeedsRoot},
    {"overload",
     "answers in time and latency of a whole appliance against the offered load, a quiet tenant "
     "beside it, and refusals: runs tools/bench-overload, as root",
     "closed loop", bench::bench_overload, kNoAttention, !kChoosesFusion, kRunsForSeconds,
     kIsScript, kNeedsRoot},
};

std::string names_of(bool bench::Bench::*property) {
  std::vector<std::string_view> names;
  for (const bench::Bench& which : kBenches)
    if (which.*property) names.emplace_back(which.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

constexpr size_t kListedCases = 40;

// Names the cases that the bench, which has run, does not have, and those that it has.
Error unknown_case(const bench::BenchOptions& options, const std::vector<std::string>& unknown) {
  const std::vector<std::string>& known = *options.known;
  std::string message = fmt::format("--case: no case is named '{}'", fmt::join(unknown, "', '"));
  if (!known.empty())
    message +=
        fmt::format("; there are: {}",
                    fmt::join(std::span(known).first(std::min(known.size(), kListedCases)), "; "));
  if (known.size() > kListedCases)
    message += fmt::format("; and {} more", known.size() - kListedCases);
  return {Code::kInvalidArgument, message + " (run without --case to see each in its table)"};
}

// Hides an option that a bench does not have, and refuses it with a message.
void refuse(CLI::Option* option, const std::string& why) {
  option->group("")->check([why](const std::string&) { return why; });
}

void add_case_options(CLI::App& command, bench::BenchOptions& options) {
  command.add_option("--case", options.cases, "only the case of this name; may be repeated");
  command.add_flag("--skip-unknown", options.skip_unknown)->group("");  // `all` sets it
}

void add_options(CLI::App& command, bench::BenchOptions& options, bool attends, bool chooses_fusion,
                 bool runs_for_seconds) {
  command.add_flag("--quick", options.quick, "fewer repetitions and smaller cases");
  command.add_option("--threads", options.threads, "CPU threads; default: all CPUs")
      ->check(CLI::Range(1u, 1024u));
  command.add_option("--device", options.device, "host, cuda, or auto (a GPU if there is one)")
      ->check(CLI::IsMember({"auto", "host", "cuda"}))
      ->capture_default_str();
  CLI::Option* const attention =
      command
          .add_option("--attention", options.attention,
                      "attention kernels on a GPU: itif or cudnn (not with --fidelity thesis)")
          ->check(CLI::IsMember({"itif", "cudnn"}))
          ->capture_default_str();
  if (!attends)
    refuse(attention,
           fmt::format("{} does not run attention within segments; --attention is for {}",
                       command.get_name(), names_of(&bench::Bench::attends)));
  command
      .add_option("--dtype", options.dtypes,
                  fmt::format("{}, or several; those that the device lacks are skipped",
                              fmt::join(device::compute_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(device::compute_names()))
      ->capture_default_str();
  CLI::Option* const fusion =
      command
          .add_option("--fidelity", options.fusion,
                      "fusion mode of encoders: fused, or thesis (its separate operators)")
          ->check(CLI::IsMember({"fused", "thesis"}))
          ->capture_default_str();
  if (!chooses_fusion)
    refuse(fusion, fmt::format("{} has the fusion mode that each of its rows needs; --fidelity is "
                               "for {}",
                               command.get_name(), names_of(&bench::Bench::chooses_fusion)));
  CLI::Option* const seconds =
      command
          .add_option("--seconds", options.seconds,
                      "measured time of each run; default: 4, or 0.6 with --quick")
          ->check(CLI::Range(0.1, 3600.0))
          ->check([](const std::string& text) {  // Range accepts nan
            return text.find_first_not_of("0123456789.") == text.npos ? "" : "wants a number";
          });
  if (!runs_for_seconds)
    refuse(seconds, fmt::format("{} repeats its cases until they are settled; --seconds is for {}",
                                command.get_name(), names_of(&bench::Bench::runs_for_seconds)));
  add_case_options(command, options);
}

// A program of tools/ has options of its own, which it checks.
void add_script_options(CLI::App& command, bench::BenchOptions& options) {
  command.add_flag("--quick", options.quick, "one short run of each case");
  command.add_option("--seconds", options.seconds, "measured time of each run, whole seconds")
      ->check(CLI::Range(1u, 3600u));
  add_case_options(command, options);
  for (const char* other : {"--device", "--threads", "--dtype", "--attention", "--fidelity"})
    refuse(command.add_option_function<std::string>(other, [](const std::string&) {}),
           fmt::format("{} starts appliances of its own, on the host; {} is for other benches",
                       command.get_name(), other));
  command.add_option("--script", options.script,
                     "the program; default: tools/bench-" + command.get_name() +
                         " of the source tree. Other options are passed on to it");
  command.allow_extras();
}

int failed(const Error& error) {
  fmt::print(stderr, "itif-bench: {}\n", error.message);
  return 1;
}

int run_one(const bench::Bench& which, const bench::BenchOptions& options,
            const std::string& json_path) {
  bench::Report report(which.name, which.limit_name);
  // Before the bench, so that a path that cannot be written fails first.
  if (!json_path.empty())
    if (Status writable = report.keep_json(json_path); !writable) return failed(writable.error());
  fmt::print("itif-bench {}, commit {}, on {}\n", which.name, bench::kCommit,
             bench::describe(bench::this_machine()));
  Status status = which.run(options, report);
  if (status && !options.cases.empty() && !options.skip_unknown) {
    // A program of tools/ refuses names by itself.
    const std::vector<std::string> unknown = !which.is_script         ? options.unknown_cases()
                                             : report.num_rows() == 0 ? options.cases
                                                                      : std::vector<std::string>();
    if (!unknown.empty()) status = std::unexpected(unknown_case(options, unknown));
  }
  if (!status) report.set_error(status.error().message);
  if (status && report.num_rows() == 0 && !options.cases.empty())
    report.note("no case has one of the names of --case");
  if (Status written = report.finish(); !written) return failed(written.error());
  return status ? 0 : failed(status.error());
}

int show(std::span<const bench::Bench> benches, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    auto results = bench::read_results(file);
    if (!results) return failed(results.error());
    const auto which = std::ranges::find(benches, results->bench, &bench::Bench::name);
    if (which != benches.end()) results->description = which->description;
    fmt::print("{}", bench::markdown_section(*results));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  device::limit_pool_spinning(argv);
  log::set_level(log::Level::kWarning);
  if (argc == 4 && std::string_view(argv[1]) == "tenant-process")
    return bench::run_tenant_process(argv[2], argv[3]);
  CLI::App app{
      "Times parts of itif on this machine. Each bench checks its results before it times them.\n"
      "Example: itif-bench encoder --quick --json encoder.json\n"
      "--attention is for the benches " +
      names_of(&bench::Bench::attends) + "; --fidelity for " +
      names_of(&bench::Bench::chooses_fusion) + "; --seconds for " +
      names_of(&bench::Bench::runs_for_seconds) + "."};
  bench::BenchOptions options;
  options.dtypes = {"f32", "bf16"};
  std::string json_path;
  bench::AllOptions all;
  app.require_subcommand(0, 1);
  std::vector<std::string> names;
  for (const bench::Bench& which : kBenches) {
    names.emplace_back(which.name);
    CLI::App* command = app.add_subcommand(which.name, which.description);
    if (which.is_script)
      add_script_options(*command, options);
    else
      add_options(*command, options, which.attends, which.chooses_fusion, which.runs_for_seconds);
    command->add_option("--json", json_path, "also write the results to this file");
  }
  CLI::App* every = app.add_subcommand(
      "all", "every bench, and a report that compares them with the thesis's figures, with plots");
  add_options(*every, options, true, true, true);
  every->add_option("--out", all.directory, "folder for report.md, plots and a JSON file per bench")
      ->required();
  every->add_option("--only", all.only, "run only these benches")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  std::vector<std::string> files;
  CLI::App* shown = app.add_subcommand("show", "print files written by --json as Markdown tables");
  shown->add_option("FILE", files, "results written by --json or --out")
      ->required()
      ->check(CLI::ExistingFile);
  if (argc > 1 && argv[1][0] != '-' && std::string_view(argv[1]) != "all" &&
      std::string_view(argv[1]) != "show" && std::ranges::find(names, argv[1]) == names.end())
    return failed({Code::kInvalidArgument, fmt::format("no bench is named {}; there are: all, {}",
                                                       argv[1], fmt::join(names, ", "))});
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::string_view what = error.what();
    if (what.starts_with(": ")) what.remove_prefix(2);  // the name of a hidden option
    return failed({Code::kInvalidArgument, fmt::format("{} (see --help)", what)});
  }
  if (app.get_subcommands().empty()) {
    fmt::print(stderr, "{}", app.help());
    return 1;
  }

  if (shown->parsed()) return show(kBenches, files);
  if (options.attention != "itif" && options.fusion == "thesis")
    return failed(
        {Code::kInvalidArgument,
         "--attention cudnn does not work with --fidelity thesis, which has its own attention"});
  if (every->parsed()) {
    const auto num_failed = bench::run_all(kBenches, options, all);
    if (!num_failed) return failed(num_failed.error());
    return *num_failed == 0 ? 0 : 1;
  }
  for (const bench::Bench& which : kBenches) {
    if (!app.got_subcommand(which.name)) continue;
    if (which.is_script) options.more = app.get_subcommand(which.name)->remaining();
    return run_one(which, options, json_path);
  }
  return 0;
}
