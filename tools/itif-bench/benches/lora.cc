// itif-bench lora: tokens/s of tenants that are LoRA adapters over one base, with a request of 64
// tokens to each, against the same requests to the base. Batches are those of a group with default
// limits: 64 requests. With more adapters, each sample runs the next 64.
//
// All adapters of a row differ, because a group stores equal ones once: it must hold as many as the
// row says. Adapters are made one at a time, and removed once they are loaded: 512 of rank 64 take
// 4.8 GB in f32, half in bf16.
//
// An adapter's answer in a batch must equal that of its merged weights.
//
// A default run takes a few minutes on two cores. Most of the time goes to batches of 4,096 tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "backbone/family.h"
#include "benches.h"
#include "make_adapter.h"
#include "make_model.h"
#include "runtime/batch/make_encoder_group.h"
#include "workload/devices.h"
#include "workload/model_folder.h"
#include "workload/tenant_load.h"

namespace itif::bench {
namespace {

constexpr uint32_t kLoraTokens = 64;         // of each request
constexpr uint32_t kLoraBatchRequests = 64;  // 4,096 tokens

struct LoraCase {
  const char* targets;
  std::vector<std::string> modules;  // empty: query and value
  uint32_t rank;
  std::vector<uint32_t> num_adapters;
};
const std::vector<std::string> kAllModules = {
    "query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"};
struct LoraSize {
  const char* preset;
  std::vector<LoraCase> cases;
};
const LoraSize kLoraSize = {"bert-base",
                            {{"query and value", {}, 8, {1, 8, 64, 512}},
                             {"query and value", {}, 64, {1, 8, 64, 512}},
                             {"all GEMMs", kAllModules, 8, {64}}}};
const LoraSize kQuickLoraSize = {
    "bert-tiny", {{"query and value", {}, 8, {1, 3}}, {"all GEMMs", kAllModules, 8, {3}}}};
// A batch of 64 requests takes seconds on a slow CPU. The check of the answers warms up.
constexpr Effort kLoraRuns{.seconds = 2, .least = 3, .most = 500, .warm_ups = 0};

struct LoraGroup {
  std::unique_ptr<runtime::EncoderGroup> group;
  std::unique_ptr<device::Stream> stream;

  static Result<LoraGroup> make(device::Device& device, const model::BackboneSpec& spec,
                                uint32_t max_tenants, backbone::FusionMode fusion_mode) {
    LoraGroup made;
    ITIF_ASSIGN(made.group,
                runtime::make_encoder_group(device, spec,
                                            {.max_tokens = kLoraTokens * kLoraBatchRequests,
                                             .max_requests = kLoraBatchRequests,
                                             .max_tenants = max_tenants},
                                            {.fusion_mode = fusion_mode}));
    ITIF_ASSIGN(made.stream, device.make_stream(made.group->stream_limits()));
    made.stream->attach_thread();
    return made;
  }
};

// Compares an adapter's answer beside others with that of a group that merges it: the thesis fusion
// mode has no operator for updates.
Status check_lora(device::Device& device, const model::BackboneSpec& spec,
                  const model::ModelFiles& files, const std::vector<float>& answer) {
  ITIF_ASSIGN(LoraGroup merged, LoraGroup::make(device, spec, 1, backbone::FusionMode::kThesis));
  ITIF_ASSIGN(const uint32_t slot, merged.group->admit(files, nullptr));
  TenantLoad load({slot}, kLoraTokens, kLoraBatchRequests);
  ITIF_TRY(load.run(*merged.group, *merged.stream));
  const std::vector<float> expected = load.logits(0);
  const double tolerance = device.info().compute.activations == DType::kF32 ? 1e-3 : 0.1;
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::abs(answer[i] - expected[i]) <= tolerance * std::max(1.0f, std::abs(expected[i]))))
      return fail(Code::kInternal, fmt::format("an adapter answers {} merged, and {} in a batch",
                                               expected[i], answer[i]));
  return {};
}

// Fails unless the tenants in `slots` took the memory of as many different adapters since the group
// had `base_bytes`.
Status check_distinct(const runtime::Group& group, const std::vector<uint32_t>& slots,
                      uint64_t base_bytes) {
  const uint64_t bytes = group.weight_bytes() - base_bytes;
  const uint64_t adapter_bytes = group.model(slots.front())->adapter_bytes;
  if (bytes == slots.size() * adapter_bytes) return {};
  return fail(Code::kInternal, fmt::format("{} adapters of {} bytes take {}: some are shared",
                                           slots.size(), adapter_bytes, bytes));
}

Status run_lora_case(const BenchOptions& options, device::Device& device, const std::string& name,
                     const model::BackboneSpec& spec, const LoraCase& lora, const std::string& base,
                     Report& report) {
  ITIF_ASSIGN(const ModelFolder models, ModelFolder::make());
  const model::ModelFiles files = {(models.path() / "adapter").string(), base};
  const auto make_adapter = [&](size_t index) {
    std::filesystem::remove_all(files.directory);
    return mkmodel::make_adapter(
        {.spec = spec, .targets = lora.modules, .rank = lora.rank, .seed = 10 + index},
        files.directory);
  };
  ITIF_ASSIGN(LoraGroup group, LoraGroup::make(device, spec, lora.num_adapters.back() + 1,
                                               backbone::FusionMode::kFused));
  ITIF_ASSIGN(const uint32_t base_slot, group.group->admit(base, nullptr));
  const uint64_t base_bytes = group.group->weight_bytes();
  std::vector<uint32_t> slots;
  Samples load_ns;
  for (const uint32_t num_adapters : lora.num_adapters) {
    while (slots.size() < num_adapters) {
      ITIF_TRY(make_adapter(slots.size()));
      const uint64_t before_ns = kSystemClock.now_ns();
      const auto slot = group.group->admit(files, nullptr);
      if (!slot && slot.error().code == Code::kResourceExhausted) {
        report.note(fmt::format("{}: {} adapters fit", name, slots.size()));
        return {};
      }
      if (!slot) return std::unexpected(slot.error());
      load_ns.add(static_cast<double>(kSystemClock.now_ns() - before_ns));
      slots.push_back(*slot);
    }
    ITIF_TRY(check_distinct(*group.group, slots, base_bytes));
    TenantLoad all(slots, kLoraTokens, kLoraBatchRequests);
    TenantLoad plain(std::vector<uint32_t>(slots.size(), base_slot), kLoraTokens,
                     kLoraBatchRequests);
    Status status;
    const auto run = [&](TenantLoad& load) {
      if (Status ran = load.run_next(*group.group, *group.stream); !ran) status = std::move(ran);
    };
    run(all);
    ITIF_TRY(std::move(status));
    const uint32_t last = std::min(num_adapters, kLoraBatchRequests) - 1;  // of the first batch
    if (num_adapters == lora.num_adapters.back()) {
      ITIF_TRY(make_adapter(last));
      ITIF_TRY(check_lora(device, spec, files, all.logits(last)));
    }
    const std::vector<Samples> samples = measure({[&] { run(all); }, [&] { run(plain); }},
                                                 options.quick ? options.effort() : kLoraRuns);
    ITIF_TRY(std::move(status));
    const auto rate = [&](const Samples& times) {
      return static_cast<double>(all.num_batch_tokens()) / times.median() * 1e9;
    };
    report.add({.name = name,
                .mode = fmt::format("{} adapter{}", num_adapters, num_adapters == 1 ? "" : "s"),
                .value = rate(samples[0]),
                .unit = "tokens/s",
                .spread = samples[0].spread(),
                .limit = rate(samples[1]),
                .limit_spread = samples[1].spread(),
                .ratio = rate(samples[0]) / rate(samples[1])});
  }
  report.add({.name = name, .mode = "load", .value = load_ns.median() / 1e6, .unit = "ms"});
  report.add({.name = name,
              .mode = "memory of an adapter",
              .value = static_cast<double>(group.group->model(slots.front())->adapter_bytes) / 1e6,
              .unit = "MB"});
  return {};
}

}  // namespace

Status bench_lora(const BenchOptions& options, Report& report) {
  const LoraSize& size = options.quick ? kQuickLoraSize : kLoraSize;
  ITIF_ASSIGN(const backbone::Preset* preset, backbone::find_preset(size.preset));
  ITIF_ASSIGN(const ModelFolder models, ModelFolder::make());
  const std::string base = (models.path() / "base").string();
  ITIF_TRY(mkmodel::make_model({.spec = preset->spec, .head = mkmodel::HeadChoice::kClassification},
                               base));
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        for (const LoraCase& lora : size.cases) {
          const std::string name =
              fmt::format("{}, {}, rank {}, {}", size.preset, lora.targets, lora.rank, dtype);
          if (!options.wants_any({name, lora.targets})) continue;
          ITIF_TRY(run_lora_case(options, device, name, preset->spec, lora, base, report));
        }
        return {};
      });
}

}  // namespace itif::bench
