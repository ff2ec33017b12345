// itif-run: runs models in this process; reads and writes JSON lines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>

#include "base/log.h"
#include "base/units.h"
#include "device/compute_types.h"
#include "device/host/pool_wait.h"
#include "json_lines.h"
#include "plan/make_planner.h"

namespace {

using namespace itif;

struct Arguments {
  run::RunnerOptions runner;
  std::string kind = "default";
  uint32_t batch = 1;
  uint32_t repeats = 1;
  std::string interval = "0s";
  bool samples = false;
  bool verbose = false;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Status run_batch(run::Runner& runner, const std::vector<run::Input>& inputs,
                 const Arguments& arguments) {
  std::vector<double> us;
  ITIF_ASSIGN(const std::vector<run::Output> outputs,
              runner.forward(inputs, arguments.repeats,
                             parse_duration_ns(arguments.interval).value_or(0), us));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!arguments.samples) {
      fmt::print("{}\n", format_output(outputs[i], median(us)));
      continue;
    }
    ITIF_ASSIGN(const std::string sample, run::format_sample(inputs[i], outputs[i]));
    fmt::print("{}\n", sample);
  }
  std::fflush(stdout);
  return {};
}

Status run_lines(const Arguments& arguments) {
  ITIF_ASSIGN(const wire::ResultKind kind, run::parse_kind(arguments.kind));
  ITIF_ASSIGN(const std::unique_ptr<run::Runner> runner, run::Runner::open(arguments.runner));
  log::info("{}", runner->device_info().description);
  std::vector<run::Input> inputs;
  uint64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (line.empty()) continue;
    auto input = run::parse_input(line, kind);
    if (!input)
      return fail(input.error().code, fmt::format("line {}: {}", number, input.error().message));
    input->line = line;
    inputs.push_back(std::move(*input));
    if (inputs.size() < arguments.batch) continue;
    ITIF_TRY(run_batch(*runner, inputs, arguments));
    inputs.clear();
  }
  return inputs.empty() ? Status{} : run_batch(*runner, inputs, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  device::limit_pool_spinning(argv);  // as in the appliance
  Arguments arguments;
  CLI::App app{
      "Runs models in this process. Reads one JSON object per line from standard input and writes "
      "one per line to standard output.\n"
      "  {\"text\": \"good morning\"}            a text, for a model with a vocabulary\n"
      "  {\"ids\": [101, 2204, 102]}           token ids\n"
      "  {\"image_u8\": \"picture.bin\"}       a file with an image payload, prefix and pixels\n"
      "Also: \"pair\", \"truncate\", \"token_types\", \"kind\", \"model\" (index of --model).\n"
      "Example: echo '{\"text\": \"good morning\"}' | itif-run --model all-MiniLM-L6-v2"};
  app.add_option("--model", arguments.runner.models,
                 "a Hugging Face directory; several with the same backbone form one group")
      ->required();
  app.add_option("--base", arguments.runner.base,
                 "the base model of each --model that is a LoRA adapter (PEFT)");
  app.add_option("--device", arguments.runner.device.kind, "auto, host or cuda")
      ->capture_default_str();
  app.add_option("--dtype", arguments.runner.device.dtype,
                 fmt::format("auto, {}", fmt::join(device::compute_names(), ", ")))
      ->capture_default_str();
  app.add_option("--attention", arguments.runner.device.attention,
                 "attention kernels on a GPU: itif or cudnn")
      ->check(CLI::IsMember({"itif", "cudnn"}))
      ->capture_default_str();
  app.add_option("--fidelity", arguments.runner.fusion_mode,
                 "fusion mode: fused, or thesis (encoders only)")
      ->check(CLI::IsMember({"fused", "thesis"}))
      ->capture_default_str();
  app.add_option("--planner", arguments.runner.planner,
                 "layout of batches: packed, naive, concat or slotted, with settings as in "
                 "slotted:slot_tokens=32,row_tokens=128; for encoders also one that measures this "
                 "machine first, which takes seconds")
      ->check([](const std::string& text) {
        const auto parsed = plan::parse_planner(text);
        return parsed ? std::string() : parsed.error().message;
      })
      ->type_name("PLANNER")
      ->capture_default_str();
  app.add_option("--threads", arguments.runner.device.num_threads,
                 "threads of the host device; 0: all cores")
      ->capture_default_str();
  app.add_option("--kind", arguments.kind,
                 "kind of result: default, hidden, pooled, embedding, logits, token_logits, "
                 "classes, tokens or text")
      ->capture_default_str();
  app.add_option("--batch", arguments.batch, "number of lines that run as one batch")
      ->check(CLI::Range(1u, 256u))
      ->capture_default_str();
  app.add_option("--max-tokens", arguments.runner.max_tokens, "most tokens of a batch")
      ->check(CLI::Range(1u, 65536u))
      ->capture_default_str();
  app.add_option("--repeat", arguments.repeats,
                 "runs of each batch; \"us\" is their median; 0: only tokenise")
      ->check(CLI::Range(0u, 100000u))
      ->capture_default_str();
  app.add_option(
         "--interval", arguments.interval,
         "time between the starts of two repeats, as in 50ms, so that cores are idle before each")
      ->check([](const std::string& text) {
        return parse_duration_ns(text) ? std::string()
                                       : "'" + text + "' is not a duration, as in 50ms";
      })
      ->capture_default_str();
  app.add_flag("--samples", arguments.samples,
               "write each line with its result as a sample of the model, for "
               "itif-samples.jsonl in its directory");
  app.add_flag("--verbose", arguments.verbose, "log the device and the loaded models");
  CLI11_PARSE(app, argc, argv);
  log::set_level(arguments.verbose ? log::Level::kInfo : log::Level::kWarning);
  std::ios::sync_with_stdio(false);
  if (itif::Status status = run_lines(arguments); !status) {
    fmt::print(stderr, "itif-run: {}\n", status.error().message);
    return 1;
  }
  return 0;
}
