// itif-bench cleaning: TCB's early memory cleaning (section 4.2.2). The same requests are generated
// batch by batch and scheduled by step, while an ended sequence gives back its K/V memory with its
// batch, with its slot, or immediately. One case has a K/V cache that holds few sequences, which
// limits the requests/s. The other runs equally many at once and compares the memory at its peak.
//
// Sources as in the paper: 3 to 100 tokens, mean 20, variance 100, in rows of 400 tokens and the
// slots that slotted_das chooses. The vocabulary is so small that random models end their outputs,
// each tenant's at lengths of its own, up to kMaxOutput. Every setting must give the same tokens
// before it is timed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backbone/decoder.h"
#include "base/random.h"
#include "benches.h"
#include "make_model.h"
#include "runtime/generate/generation_executor.h"
#include "runtime/generate/make_decoder_group.h"
#include "workload/devices.h"
#include "workload/model_folder.h"

namespace itif::bench {
namespace {

using runtime::Cleaning;
using runtime::Joining;

constexpr uint32_t kCleaningTenants = 8;
constexpr uint32_t kMaxOutput = 128;
constexpr uint32_t kCleaningVocab = 100;
constexpr std::array<int, 8> kEndTokens = {0, 2, 3, 4, 5, 6, 7, 8};

constexpr uint32_t kCleaningTokens = 800;  // of one step's sources: two rows of 400
constexpr const char* kCleaningPlanner = "slotted:row_tokens=400";

struct CleaningMode {
  const char* name;
  runtime::GenerationOptions options;
};
constexpr CleaningMode kCleaningModes[] = {
    {"batches, by batch", {Joining::kBatches, Cleaning::kBatch}},
    {"batches, by slot", {Joining::kBatches, Cleaning::kSlot}},
    {"batches, by sequence", {Joining::kBatches, Cleaning::kSequence}},
    {"steps, by batch", {Joining::kSteps, Cleaning::kBatch}},
    {"steps, by slot", {Joining::kSteps, Cleaning::kSlot}},
    {"steps, by sequence", {Joining::kSteps, Cleaning::kSequence}},
};

// Three layers each, as the paper's model has.
model::BackboneSpec cleaning_spec(bool quick) {
  model::BackboneSpec spec = backbone::find_preset("marian-tiny").value()->spec;
  spec.vocab = kCleaningVocab;
  for (model::SpecField& field : spec.own)
    if (field.key == "scale_embedding") field.value = uint64_t{0};
  if (quick) return spec;
  const std::pair<std::string_view, uint64_t> own[] = {
      {"decoder_layers", 3}, {"decoder_attention_heads", 8}, {"decoder_ffn_dim", 1024}};
  spec.layers = 3;
  spec.hidden = 256;
  spec.heads = 8;
  spec.intermediate = 1024;
  for (model::SpecField& field : spec.own)
    for (const auto& [name, value] : own)
      if (field.key == name) field.value = value;
  return spec;
}

uint64_t block_bytes(const model::BackboneSpec& spec, DType type) {
  return spec.number("decoder_layers") * 2 * backbone::Decoder::kBlockTokens * spec.hidden *
         dtype_bytes(type);
}

// Writes a model whose greedy outputs end at different lengths.
Status write_model(const model::BackboneSpec& spec, uint32_t tenant, const std::string& directory) {
  mkmodel::ModelOptions model;
  model.spec = spec;
  model.seed = tenant + 1;
  ITIF_TRY(mkmodel::make_model(model, directory));
  nlohmann::ordered_json generation = {{"num_beams", 1},
                                       {"max_length", kMaxOutput},
                                       {"decoder_start_token_id", spec.vocab - 1},
                                       {"bad_words_ids", {{spec.vocab - 1}}},
                                       {"eos_token_id", kEndTokens}};
  std::ofstream file(directory + "/generation_config.json", std::ios::trunc);
  file << generation.dump();
  if (!file.flush()) return fail(Code::kPermission, fmt::format("cannot write {}", directory));
  return {};
}

// The same requests for every setting.
class CleaningLoad final : public runtime::CompletionSink {
 public:
  explicit CleaningLoad(uint32_t count, uint32_t vocab) {
    Random random(11);
    ids_.resize(count);
    for (std::vector<uint32_t>& ids : ids_) {
      const double length = std::round(20 + std::sqrt(100.0) * random.normal());
      ids.resize(static_cast<size_t>(std::clamp(length, 3.0, 100.0)));
      for (uint32_t& id : ids) id = 2 + static_cast<uint32_t>(random.below(vocab - 4));
    }
    answers_.resize(count);
  }
  void complete(std::span<request::Request* const> answered) noexcept override {
    for (request::Request* request : answered) {
      num_failed_ += request->status != wire::StatusCode::kOk;
      std::vector<uint32_t>& answer = answers_[request->request_id];
      answer.resize(request->result.bytes / sizeof(uint32_t));
      if (!answer.empty()) std::memcpy(answer.data(), request->result.data, request->result.bytes);
      std::free(request->result.data);
      ++num_answered_;
    }
  }
  // Runs all requests. Returns the time, ns.
  double run(runtime::GenerationExecutor& executor) {
    num_answered_ = num_failed_ = num_steps_ = 0;
    std::vector<request::Request> requests(ids_.size());
    std::vector<request::Piece> pieces(ids_.size());
    const uint64_t start_ns = kSystemClock.now_ns();
    for (size_t i = 0; i < ids_.size(); ++i) {
      pieces[i] = {reinterpret_cast<const std::byte*>(ids_[i].data()),
                   static_cast<uint32_t>(ids_[i].size() * sizeof(uint32_t))};
      requests[i].request_id = i;
      requests[i].slot = static_cast<uint32_t>(i % kCleaningTenants);
      requests[i].payload_kind = wire::PayloadKind::kTokensU32;
      requests[i].payload_bytes = pieces[i].bytes;
      requests[i].pieces = {&pieces[i], 1};
      executor.submit(&requests[i]);
    }
    runtime::BatchFigures figures;
    while (num_answered_ < ids_.size()) {
      executor.step(*this, figures);
      num_steps_ += figures.num_tokens > 0;
    }
    return static_cast<double>(kSystemClock.now_ns() - start_ns);
  }
  const std::vector<std::vector<uint32_t>>& answers() const { return answers_; }
  // These two count in the last run.
  size_t num_failed() const { return num_failed_; }
  size_t num_steps() const { return num_steps_; }

 private:
  std::vector<std::vector<uint32_t>> ids_, answers_;
  size_t num_answered_ = 0, num_failed_ = 0, num_steps_ = 0;
};

// Share of requests whose answers have different tokens.
double share_of_others(const CleaningLoad& load, const std::vector<std::vector<uint32_t>>& than) {
  size_t others = 0;
  for (size_t i = 0; i < than.size(); ++i) others += load.answers()[i] != than[i];
  return static_cast<double>(others) / static_cast<double>(than.size());
}

struct CleaningCase {
  std::string name;
  uint32_t max_beams = 0;        // sequences that run at the same time
  uint32_t cache_sequences = 0;  // worst cases that the cache holds
};

// A group and its stream, on which executors of all settings run in turn.
struct CleaningSetup {
  std::unique_ptr<runtime::DecoderGroup> group;
  std::unique_ptr<device::Stream> stream;
  device::DeviceInfo device;

  Result<std::unique_ptr<runtime::GenerationExecutor>> executor(
      const runtime::GenerationOptions& generation) const {
    runtime::ExecutorOptions options;
    options.limits.max_tokens = kCleaningTokens;
    options.scheduler = "slotted_das";
    options.max_wait_ns = 0;  // no limit: every request must be answered
    options.generation = generation;
    ITIF_ASSIGN(auto made,
                runtime::GenerationExecutor::create(*group, *stream, kSystemClock, options));
    ITIF_TRY(made->set_planner(kCleaningPlanner, device, nullptr));
    return made;
  }
};

Result<CleaningSetup> make_setup(device::Device& device, const model::BackboneSpec& spec,
                                 const CleaningCase& cleaning,
                                 const std::filesystem::path& models) {
  CleaningSetup setup{.group = {}, .stream = {}, .device = device.info()};
  const uint32_t sequence_blocks = (kMaxOutput + 100) / backbone::Decoder::kBlockTokens + 1;
  ITIF_ASSIGN(setup.group,
              runtime::make_decoder_group(
                  device, spec, {.max_tokens = kCleaningTokens, .max_tenants = kCleaningTenants},
                  {.max_beams = cleaning.max_beams,
                   .max_cache_bytes = uint64_t{cleaning.cache_sequences} * sequence_blocks *
                                      block_bytes(spec, device.info().compute.activations)}));
  for (uint32_t tenant = 0; tenant < kCleaningTenants; ++tenant)
    ITIF_TRY(setup.group->admit((models / std::to_string(tenant)).string(), nullptr));
  ITIF_ASSIGN(setup.stream, device.make_stream(setup.group->stream_limits()));
  return setup;
}

Status compare_cleaning(const BenchOptions& options, device::Device& device,
                        const std::string& dtype, const CleaningCase& cleaning,
                        const std::filesystem::path& models, Report& report) {
  const std::string name = cleaning.name + ", " + dtype;
  if (!options.wants(name)) return {};
  const model::BackboneSpec spec = cleaning_spec(options.quick);
  ITIF_ASSIGN(const CleaningSetup setup, make_setup(device, spec, cleaning, models));
  CleaningLoad load(options.quick ? 32 : 96, spec.vocab);
  const DType type = device.info().compute.activations;
  const double mib = static_cast<double>(block_bytes(spec, type)) / (1 << 20);
  std::vector<std::vector<uint32_t>> expected;
  std::vector<double> used_mib;
  std::vector<size_t> num_steps;
  for (const CleaningMode& mode : kCleaningModes) {
    ITIF_ASSIGN(const auto executor, setup.executor(mode.options));
    load.run(*executor);
    if (load.num_failed() > 0)
      return fail(Code::kInternal,
                  fmt::format("{}, {}: {} requests failed", name, mode.name, load.num_failed()));
    if (expected.empty()) expected = load.answers();
    // In bf16, other rows of a step change the order of sums, which may decide between two tokens
    // with close scores.
    if (const double others = share_of_others(load, expected);
        others > (type == DType::kF32 ? 0 : 0.25))
      return fail(Code::kInternal, fmt::format("{}, {}: {:.0f} % of the answers differ", name,
                                               mode.name, 100 * others));
    used_mib.push_back(executor->blocks().max_used() * mib);
    num_steps.push_back(load.num_steps());
  }
  Status status;
  std::vector<std::function<void()>> runs;
  for (const CleaningMode& mode : kCleaningModes)
    runs.push_back([&] {
      auto executor = setup.executor(mode.options);
      if (executor)
        load.run(**executor);
      else
        status = std::unexpected(executor.error());
    });
  const auto samples =
      measure(runs, options.quick ? Effort{.seconds = 0, .least = 3} : kLayoutRuns);
  ITIF_TRY(std::move(status));
  for (size_t m = 0; m < std::size(kCleaningModes); ++m)
    report.add({.name = name,
                .mode = kCleaningModes[m].name,
                .value = static_cast<double>(expected.size()) / (samples[m].median() * 1e-9),
                .unit = "requests/s",
                .spread = samples[m].spread()});
  for (size_t m = 1; m < std::size(kCleaningModes); ++m) {
    const Samples gain = paired_ratios(samples[0], samples[m]);
    report.add({.name = name,
                .mode = fmt::format("{} / {}", kCleaningModes[m].name, kCleaningModes[0].name),
                .value = gain.median(),
                .unit = "times",
                .spread = gain.spread()});
  }
  for (size_t m = 0; m < std::size(kCleaningModes); ++m) {
    report.add({.name = name,
                .mode = kCleaningModes[m].name,
                .value = static_cast<double>(num_steps[m]),
                .unit = "steps"});
    report.add(
        {.name = name, .mode = kCleaningModes[m].name, .value = used_mib[m], .unit = "MiB peak"});
  }
  return {};
}

}  // namespace

Status bench_cleaning(const BenchOptions& options, Report& report) {
  const CleaningCase cases[] = {
      {"cache of 16 sequences", 64, 16},
      {"16 sequences at once", 16, 64},
  };
  ITIF_ASSIGN(const ModelFolder folder, ModelFolder::make());
  for (uint32_t tenant = 0; tenant < kCleaningTenants; ++tenant)
    ITIF_TRY(write_model(cleaning_spec(options.quick), tenant,
                         (folder.path() / std::to_string(tenant)).string()));
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        for (const CleaningCase& one : cases)
          ITIF_TRY(compare_cleaning(options, device, dtype, one, folder.path(), report));
        return {};
      });
}

}  // namespace itif::bench
