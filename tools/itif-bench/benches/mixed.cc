// itif-bench mixed: tokens/s and share of padding by planner; 64 requests (GPU: 512). The limit is
// the GEMMs of the same requests without padding.
//
//   lengths 1-128    BERT-base, 4 tenants
//   lengths 33-128   the same with the thesis's lengths
//   short requests   BERT-tiny, 64 tenants, lengths 1-16: calls cost more than rows
#include <fmt/format.h>

#include <algorithm>

#include "backbone/family.h"
#include "base/random.h"
#include "benches.h"
#include "plan/planner.h"
#include "report/timing.h"
#include "runtime/cost/pass_pricer.h"
#include "workload/costs.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"
#include "workload/planned_batch.h"

namespace itif::bench {
namespace {

constexpr plan::PlanLimits kHostLimits{.max_requests = 64, .max_rows = 1024};
constexpr plan::PlanLimits kGpuLimits{.max_requests = 512, .max_rows = 32768};
constexpr uint32_t kQuickMixedLayers = 2;
constexpr const char* kPlanners[] = {"naive",  "turbo", "itif",   "joint",
                                     "packed", "auto",  "concat", "slotted:row_tokens=512"};
constexpr size_t kPacked = 4, kAuto = 5;  // their indices

// The thesis's attention has no mask between requests, which the last two need.
std::span<const char* const> planners_of(backbone::FusionMode fusion_mode) {
  const std::span all(kPlanners);
  return fusion_mode == backbone::FusionMode::kFused ? all : all.first(all.size() - 2);
}

struct Lengths {
  const char* name;
  uint32_t shortest, longest;  // uniform
};
constexpr Lengths kLongRequests[] = {{"lengths 1-128", 1, 128}, {"lengths 33-128", 33, 128}};
constexpr Lengths kShortRequests[] = {{"short requests", 1, 16}};

struct Mix {
  const char* preset;
  uint32_t tenants;
  std::span<const Lengths> lengths;
};
constexpr Mix kMixes[] = {{"bert-base", 4, kLongRequests}, {"bert-tiny", 64, kShortRequests}};

std::vector<plan::Item> make_items(const Lengths& lengths, uint32_t num_requests,
                                   uint32_t tenants) {
  Random random(lengths.shortest);
  std::vector<plan::Item> items(num_requests);
  for (uint32_t i = 0; i < num_requests; ++i)
    items[i] = {i % tenants, lengths.shortest + static_cast<uint32_t>(random.below(
                                                    lengths.longest - lengths.shortest + 1))};
  return items;
}

// Returns the index of the fastest planner other than auto.
size_t fastest_fixed(const std::vector<Samples>& samples, size_t num_planners) {
  size_t fastest = 0;
  for (size_t p = 1; p < num_planners; ++p)
    if (p != kAuto && samples[p].median() < samples[fastest].median()) fastest = p;
  return fastest;
}

EncoderCase floor_case(const std::vector<plan::Item>& items, uint32_t tenants) {
  EncoderCase c{.name = {}, .lengths = std::vector<std::vector<uint32_t>>(tenants)};
  for (const plan::Item& item : items) c.lengths[item.slot].push_back(item.num_tokens);
  return c;
}

Status run_mix(const BenchOptions& options, const Mix& mix, device::Device& device,
               const std::string& dtype, Report& report) {
  const auto name_of = [&](const Lengths& lengths) {
    return fmt::format("{}{}, {}", lengths.name, options.quick ? " (2 layers)" : "", dtype);
  };
  const auto is_wanted = [&](const Lengths& lengths) {
    return options.wants_any({name_of(lengths), lengths.name});
  };
  if (std::ranges::none_of(mix.lengths, is_wanted)) return {};
  model::BackboneSpec spec = backbone::find_preset(mix.preset).value()->spec;
  if (options.quick) spec.layers = kQuickMixedLayers;
  const plan::PlanLimits& batch_limits = device.info().kind == "cuda" ? kGpuLimits : kHostLimits;
  ITIF_ASSIGN(const auto encoder, Encoder::make(device, spec, mix.tenants, batch_limits.max_rows,
                                                {.fusion_mode = options.fusion_mode()}));
  const plan::PlanLimits limits = encoder->pass_limits().added_to(batch_limits);
  ITIF_ASSIGN(const auto tables,
              measure_costs(device, encoder->stream(), spec, options.fusion_mode(),
                            {.max_rows = limits.max_rows,
                             .max_length = 128,
                             .max_requests = limits.max_requests,
                             .max_tenants = mix.tenants,
                             .launch_pass = [&](device::Stream& stream, uint32_t num_requests,
                                                uint32_t num_tokens) {
                               encoder->launch_sample(stream, num_requests, num_tokens);
                             }}));
  const auto pricer = std::make_shared<runtime::PassPricer>(device.info(), limits, tables);

  for (const Lengths& lengths : mix.lengths) {
    if (!is_wanted(lengths)) continue;
    const std::string name = name_of(lengths);
    const std::vector<plan::Item> items = make_items(lengths, limits.max_requests, mix.tenants);
    std::vector<PlannedBatch> plans;
    std::vector<float> expected;
    for (const char* planner : planners_of(options.fusion_mode())) {
      ITIF_ASSIGN(
          PlannedBatch planned,
          make_planned_batch(planner, {.limits = limits, .tables = &*tables, .pricer = pricer},
                             items, spec.vocab));
      plans.push_back(std::move(planned));
      ITIF_ASSIGN(std::vector<float> states, last_states(*encoder, plans.back()));
      if (expected.empty()) expected = states;
      for (uint32_t i = 0; i < items.size(); ++i) {
        const size_t at = size_t{i} * spec.hidden;
        const double similarity = cosine(states.data() + at, expected.data() + at, spec.hidden);
        if (!(similarity >= 0.999))
          return fail(Code::kInternal,
                      fmt::format("{}: request {} differs from {}'s result, cosine {}", planner, i,
                                  kPlanners[0], similarity));
      }
    }
    ITIF_ASSIGN(const auto floor,
                encoder_floor(hardware_of(device.info()), spec, floor_case(items, mix.tenants)));
    Status status;
    std::vector<std::function<void()>> runs;
    for (const PlannedBatch& planned : plans)
      runs.push_back([&] {
        if (Status ran = forward(*encoder, planned); !ran) status = ran;
      });
    runs.push_back([&] { floor->run(); });
    const auto samples =
        measure(runs, options.quick ? Effort{.seconds = 0, .least = 3} : kLayoutRuns);
    ITIF_TRY(std::move(status));
    const auto tokens = static_cast<double>(plans[0].plan.num_tokens);
    const double limit = tokens / (samples.back().median() * 1e-9);
    for (size_t p = 0; p < plans.size(); ++p) {
      const double rate = tokens / (samples[p].median() * 1e-9);
      report.add({.name = name,
                  .mode = kPlanners[p],
                  .value = rate,
                  .unit = "tokens/s",
                  .spread = samples[p].spread(),
                  .limit = limit,
                  .ratio = rate / limit});
    }
    for (size_t p = 0; p < plans.size(); ++p)
      report.add({.name = name,
                  .mode = kPlanners[p],
                  .value = pricer->price_ns(plans[p].plan) / samples[p].median(),
                  .unit = "predicted/measured"});
    for (size_t p = 0; p < plans.size(); ++p)
      report.add({.name = name,
                  .mode = kPlanners[p],
                  .value = 100 * (1 - tokens / static_cast<double>(plans[p].plan.num_rows)),
                  .unit = "% pad"});
    const size_t fixed = fastest_fixed(samples, plans.size());
    const Samples of_auto = paired_ratios(samples[kAuto], samples[fixed]);
    report.add({.name = name,
                .mode = fmt::format("auto/{}", kPlanners[fixed]),
                .value = of_auto.median(),
                .unit = "of the fastest fixed planner's time",
                .spread = of_auto.spread()});
    report.add({.name = name,
                .mode = "packed/naive",
                .value = samples.front().median() / samples[kPacked].median(),
                .unit = "times"});
  }
  return {};
}

}  // namespace

Status bench_mixed(const BenchOptions& options, Report& report) {
  return on_each_device(options, report,
                        [&](device::Device& device, const std::string& dtype) -> Status {
                          for (const Mix& mix : kMixes)
                            ITIF_TRY(run_mix(options, mix, device, dtype, report));
                          return {};
                        });
}

}  // namespace itif::bench
