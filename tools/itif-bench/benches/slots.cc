// itif-bench slots: TCB's Figures 13 and 14. The same requests in rows of 400 tokens (concat), in
// 2 to 10 slots of such a row (slotted), padded (naive, turbo), and packed, which is the limit of
// slots: one for each request, of its own length, with no mask at all. Three layers of BERT-base's
// size, as many as the paper's encoder has; lengths as in the paper, of four tenants.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "benches.h"
#include "plan/planner.h"
#include "workload/costs.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"
#include "workload/planned_batch.h"

namespace itif::bench {
namespace {

constexpr uint32_t kSlotTenants = 4, kSlotLayers = 3;
constexpr uint32_t kRowTokens = 400;
constexpr uint32_t kSlotCounts[] = {2, 4, 5, 7, 10};
// Figures 13 and 14 have batches of 10 and of 32 rows.
constexpr uint32_t kSlotRows[] = {10, 32};
constexpr const char* kPaperSlots =
    "the paper has, for slots / concat: at most 1.18 with 10 rows, and 2.31 with 32 rows in 7 "
    "slots. "
    "Here attention over whole rows takes 8 % of a layer's arithmetic (4 * 400 of 24 * 768 + 4 * "
    "400 "
    "operations per token and hidden value), whatever the number of rows. Slots save most of that";
// Rows of a pass, in batch rows of 400 tokens, so that partly filled slots still fit one pass.
constexpr uint32_t kSpareRows = 6;

// Lengths of 3 to 100 tokens, mean and variance 20 (section 6.1), until the rows are full.
std::vector<plan::Item> fill_rows(uint32_t num_rows) {
  Random random(num_rows);
  std::vector<plan::Item> items;
  for (uint32_t tokens = 0;;) {
    const double length = 20 + std::sqrt(20.0) * random.normal();
    const auto rounded = static_cast<uint32_t>(std::clamp(std::round(length), 3.0, 100.0));
    if (tokens + rounded > num_rows * kRowTokens) return items;
    tokens += rounded;
    items.push_back({static_cast<uint32_t>(random.below(kSlotTenants)), rounded});
  }
}

struct SlotMode {
  std::string name, planner;
};

std::vector<SlotMode> slot_modes() {
  std::vector<SlotMode> modes = {{"naive", "naive"},
                                 {"turbo", "turbo"},
                                 {"concat", fmt::format("concat:row_tokens={}", kRowTokens)}};
  for (const uint32_t slots : kSlotCounts)
    modes.push_back(
        {fmt::format("{} slots", slots),
         fmt::format("slotted:row_tokens={},slot_tokens={}", kRowTokens, kRowTokens / slots)});
  modes.push_back({"packed", "packed"});
  return modes;
}

constexpr size_t kConcatMode = 2;  // its index

Status check_states(const std::vector<float>& states, const std::vector<float>& expected,
                    uint32_t hidden, const std::string& mode) {
  for (size_t at = 0; at < expected.size(); at += hidden) {
    const double similarity = cosine(states.data() + at, expected.data() + at, hidden);
    if (!(similarity >= 0.999))
      return fail(Code::kInternal,
                  fmt::format("{}: request {} differs from naive's result, cosine {}", mode,
                              at / hidden, similarity));
  }
  return {};
}

Status compare_slots(const BenchOptions& options, device::Device& device, const std::string& dtype,
                     uint32_t num_rows, Report& report) {
  const std::string name = fmt::format("{} rows of {}, {}", num_rows, kRowTokens, dtype);
  if (!options.wants(name)) return {};
  model::BackboneSpec spec = bert_base();
  spec.layers = options.quick ? 1 : kSlotLayers;
  const std::vector<plan::Item> items = fill_rows(num_rows);
  const plan::PlanLimits limits{.max_requests = static_cast<uint32_t>(items.size()),
                                .max_rows = (num_rows + kSpareRows) * kRowTokens};
  ITIF_ASSIGN(const auto encoder, Encoder::make(device, spec, kSlotTenants, limits.max_rows));
  ITIF_ASSIGN(const auto tables,
              measure_costs(device, encoder->stream(), spec, backbone::FusionMode::kFused,
                            {.max_rows = limits.max_rows,
                             .max_length = 128,
                             .max_requests = limits.max_requests,
                             .max_tenants = kSlotTenants,
                             .launch_pass = [&](device::Stream& stream, uint32_t num_requests,
                                                uint32_t num_tokens) {
                               encoder->launch_sample(stream, num_requests, num_tokens);
                             }}));
  const std::vector<SlotMode> modes = slot_modes();
  std::vector<PlannedBatch> plans;
  std::vector<float> expected;
  for (const SlotMode& mode : modes) {
    ITIF_ASSIGN(
        PlannedBatch planned,
        make_planned_batch(mode.planner,
                           {.limits = encoder->pass_limits().added_to(limits), .tables = &*tables},
                           items, spec.vocab));
    plans.push_back(std::move(planned));
    ITIF_ASSIGN(std::vector<float> states, last_states(*encoder, plans.back()));
    if (expected.empty()) expected = states;
    ITIF_TRY(check_states(states, expected, spec.hidden, mode.name));
  }
  Status status;
  std::vector<std::function<void()>> runs;
  for (const PlannedBatch& planned : plans)
    runs.push_back([&] {
      if (Status ran = forward(*encoder, planned); !ran) status = ran;
    });
  const auto samples =
      measure(runs, options.quick ? Effort{.seconds = 0, .least = 3} : kLayoutRuns);
  ITIF_TRY(std::move(status));
  for (size_t m = 0; m < modes.size(); ++m)
    report.add({.name = name,
                .mode = modes[m].name,
                .value = static_cast<double>(items.size()) / (samples[m].median() * 1e-9),
                .unit = "requests/s",
                .spread = samples[m].spread()});
  for (size_t m = 0; m < modes.size(); ++m)
    report.add({.name = name,
                .mode = modes[m].name + "/concat",
                .value = samples[kConcatMode].median() / samples[m].median(),
                .unit = "times"});
  for (size_t m = 0; m < modes.size(); ++m) {
    const plan::Plan& plan = plans[m].plan;
    report.add({.name = name,
                .mode = modes[m].name,
                .value = 100 * (1 - static_cast<double>(plan.num_tokens) /
                                        static_cast<double>(plan.num_rows)),
                .unit = "% pad"});
    report.add({.name = name,
                .mode = modes[m].name,
                .value = static_cast<double>(plan.mini_batches.size()),
                .unit = "ranges"});
  }
  return {};
}

}  // namespace

Status bench_slots(const BenchOptions& options, Report& report) {
  report.note(kPaperSlots);
  return on_each_device(options, report,
                        [&](device::Device& device, const std::string& dtype) -> Status {
                          for (const uint32_t num_rows : kSlotRows)
                            ITIF_TRY(compare_slots(options, device, dtype, num_rows, report));
                          return {};
                        });
}

}  // namespace itif::bench
