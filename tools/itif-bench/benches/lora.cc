// itif-bench lora: tokens/s of tenants that are LoRA adapters over one base, with a request of 64
// tokens to each, against the same requests to the base. Batches are those of a group with default
// limits: 64 requests.
//
// An adapter's answer in a batch of all must equal that of its merged weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <span>

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
constexpr uint32_t kLoraModels = 4;          // directories; further adapters load one of them again

struct LoraSize {
  const char* preset;
  std::span<const uint32_t> num_adapters, ranks;
};
constexpr uint32_t kAdapters[] = {1, 8, 64, 512}, kRanks[] = {8, 64};
constexpr uint32_t kQuickAdapters[] = {1, 3}, kQuickRanks[] = {8};
constexpr LoraSize kLoraSizes[] = {{"bert-base", kAdapters, kRanks}};
constexpr LoraSize kQuickLoraSizes[] = {{"bert-tiny", kQuickAdapters, kQuickRanks}};

struct LoraTargets {
  const char* name;
  std::vector<std::string> modules;  // empty: query and value
};
const LoraTargets kLoraTargets[] = {
    {"query and value", {}},
    {"all GEMMs",
     {"query", "key", "value", "attention.output.dense", "intermediate.dense", "output.dense"}}};

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

Status run_lora_case(const BenchOptions& options, device::Device& device, const std::string& dtype,
                     const LoraSize& size, const LoraTargets& targets, uint32_t rank,
                     Report& report) {
  const std::string name =
      fmt::format("{}, {}, rank {}, {}", size.preset, targets.name, rank, dtype);
  if (!options.wants(name) && !options.wants(targets.name)) return {};
  ITIF_ASSIGN(const backbone::Preset* preset, backbone::find_preset(size.preset));
  const model::BackboneSpec& spec = preset->spec;
  ITIF_ASSIGN(const ModelFolder models, ModelFolder::make());
  const std::string base = (models.path() / "base").string();
  ITIF_TRY(mkmodel::make_model({.spec = spec, .head = mkmodel::HeadChoice::kClassification}, base));
  std::vector<std::string> adapters;
  for (uint32_t i = 0; i < kLoraModels; ++i) {
    adapters.push_back((models.path() / fmt::format("adapter{}", i)).string());
    ITIF_TRY(mkmodel::make_adapter(
        {.spec = spec, .targets = targets.modules, .rank = rank, .seed = 10 + i}, adapters.back()));
  }
  const uint32_t most = size.num_adapters.back();
  ITIF_ASSIGN(LoraGroup group,
              LoraGroup::make(device, spec, most + 1, backbone::FusionMode::kFused));
  ITIF_ASSIGN(const uint32_t base_slot, group.group->admit(base, nullptr));
  std::vector<uint32_t> slots;
  Samples load_ns;
  for (const uint32_t num_adapters : size.num_adapters) {
    while (slots.size() < num_adapters) {
      const uint64_t before_ns = kSystemClock.now_ns();
      const auto slot =
          group.group->admit({adapters[slots.size() % adapters.size()], base}, nullptr);
      if (!slot && slot.error().code == Code::kResourceExhausted) {
        report.note(fmt::format("{}: {} adapters fit", name, slots.size()));
        return {};
      }
      if (!slot) return std::unexpected(slot.error());
      load_ns.add(static_cast<double>(kSystemClock.now_ns() - before_ns));
      slots.push_back(*slot);
    }
    TenantLoad all(slots, kLoraTokens, kLoraBatchRequests);
    TenantLoad plain(std::vector<uint32_t>(slots.size(), base_slot), kLoraTokens,
                     kLoraBatchRequests);
    ITIF_TRY(all.run(*group.group, *group.stream));
    ITIF_TRY(check_lora(device, spec, {adapters[(slots.size() - 1) % adapters.size()], base},
                        all.logits(slots.size() - 1)));
    Status status;
    const auto run = [&](TenantLoad& load) {
      if (Status ran = load.run(*group.group, *group.stream); !ran) status = std::move(ran);
    };
    const std::vector<Samples> samples =
        measure({[&] { run(all); }, [&] { run(plain); }}, options.effort());
    ITIF_TRY(std::move(status));
    const auto rate = [&](const Samples& times) {
      return static_cast<double>(all.num_tokens()) / times.median() * 1e9;
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
  const std::span<const LoraSize> sizes =
      options.quick ? std::span<const LoraSize>(kQuickLoraSizes) : kLoraSizes;
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        for (const LoraSize& size : sizes)
          for (const LoraTargets& targets : kLoraTargets)
            for (const uint32_t rank : size.ranks)
              ITIF_TRY(run_lora_case(options, device, dtype, size, targets, rank, report));
        return {};
      });
}

}  // namespace itif::bench
