#include "peers/modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "workload/decoder_setup.h"

namespace itif::bench {
namespace {

// Modes that share an instance; their runs alternate.
const std::vector<std::string_view> kModesOfInstances[] = {
    {"seq", "itif"}, {"seq-fused", "packed"}, {"multi-stream"}, {"mps"}};

constexpr uint32_t kFloorTries = 3;

Result<std::unique_ptr<Bare>> make_floor(const Workload& workload) {
  if (!workload.decodes()) return encoder_floor(workload.on, workload.spec(), workload.requests);
  std::vector<kernels::RowRange> ranges;
  for (uint32_t tenant = 0; tenant < workload.num_tenants(); ++tenant)
    ranges.push_back({tenant * kBeams, kBeams, tenant});
  return step_floor(workload.on, workload.spec(), ranges, workload.steps);
}

// Samples of each run, and behind them those of the floor.
std::vector<Samples> measure_with_floor(std::vector<std::function<void()>> runs, Bare& floor,
                                        Effort effort) {
  effort.warm_each = true;
  floor.run();  // unlike the modes, the floor was not warmed up by a check
  runs.push_back([&floor] { floor.run(); });
  std::vector<Samples> best;
  for (uint32_t i = 0; i < kFloorTries; ++i) {
    std::vector<Samples> samples = measure(runs, effort);
    if (i == 0 || samples.back().median() < best.back().median()) best = std::move(samples);
    if (std::ranges::min(best, {}, &Samples::median).median() == best.back().median()) break;
  }
  return best;
}

}  // namespace

Status check_same(std::string_view mode, const std::vector<float>& got,
                  const std::vector<float>& expected, const Workload& workload) {
  if (got.size() != expected.size())
    return fail(Code::kInternal,
                fmt::format("{} returns {} values, a different number than the other modes", mode,
                            got.size()));
  const size_t width = expected.size() / workload.num_tenants();
  for (size_t at = 0; at < got.size(); at += width) {
    const double similarity = cosine(got.data() + at, expected.data() + at, width);
    if (!(similarity >= workload.min_similarity()))
      return fail(Code::kInternal, fmt::format("{}: tenant {} differs from the other modes' "
                                               "result, cosine {}",
                                               mode, at / width, similarity));
  }
  return {};
}

std::optional<Samples> ModeSamples::speed_up(std::string_view mode) const {
  const auto seq = by_mode.find(mode == "packed" ? "seq-fused" : "seq");
  const auto together = by_mode.find(std::string(mode));
  if (seq == by_mode.end() || together == by_mode.end()) return std::nullopt;
  return paired_ratios(seq->second, together->second);
}

Result<ModeSamples> measure_modes(const Workload& workload, const Effort& effort) {
  ModeSamples all;
  std::vector<float> expected;
  ITIF_ASSIGN(const auto floor, make_floor(workload));
  for (const auto& modes : kModesOfInstances) {
    if (std::ranges::find(execution_modes(workload), modes[0]) == execution_modes(workload).end())
      continue;
    auto made = make_execution(modes[0], workload);
    if (!made && made.error().code == Code::kResourceExhausted && !expected.empty()) {
      all.missing.push_back(fmt::format("{}: {}", modes[0], made.error().message));
      continue;
    }
    if (!made) return std::unexpected(made.error());
    Execution& execution = **made;
    Status status;
    std::vector<std::function<void()>> runs;
    for (const std::string_view mode : modes) {
      const auto switch_to_mode = [&execution, &modes, mode] {
        CHECK(modes.size() == 1 || execution.switch_to(mode));
      };
      switch_to_mode();
      ITIF_ASSIGN(std::vector<float> states, execution.last_states());
      if (expected.empty())
        expected = std::move(states);
      else
        ITIF_TRY(check_same(mode, states, expected, workload));
      runs.push_back([&execution, &status, switch_to_mode] {
        switch_to_mode();
        if (Status ran = execution.run(); !ran) status = ran;
      });
    }
    const std::vector<Samples> samples = measure_with_floor(std::move(runs), *floor, effort);
    ITIF_TRY(std::move(status));
    for (size_t i = 0; i < modes.size(); ++i) {
      all.by_mode[std::string(modes[i])] = samples[i];
      all.floors[std::string(modes[i])] = samples.back();
    }
  }
  return all;
}

void add_latencies(const std::string& name, const Workload& workload, const ModeSamples& modes,
                   const std::function<std::optional<double>(size_t mode)>& paper, Report& report) {
  const auto all = execution_modes(workload);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto samples = modes.by_mode.find(std::string(all[i]));
    if (samples == modes.by_mode.end()) continue;
    const Samples& floor = modes.floors.at(samples->first);
    report.add({.name = name,
                .mode = std::string(all[i]),
                .value = samples->second.median() * 1e-6,
                .unit = "ms",
                .spread = samples->second.spread(),
                .limit = floor.median() * 1e-6,
                .limit_spread = floor.spread(),
                .ratio = paired_ratios(samples->second, floor).median(),
                .paper = paper(i)});
  }
  for (const std::string& why : modes.missing)
    report.note(fmt::format("skipped {}, {}", name, why));
}

void add_speed_ups(const std::string& name, const ModeSamples& modes, std::optional<double> paper,
                   Report& report) {
  if (const auto speed_up = modes.speed_up("itif"))
    report.add({.name = name,
                .mode = "seq / itif",
                .value = speed_up->median(),
                .unit = "times",
                .spread = speed_up->spread(),
                .limit = {},
                .ratio = {},
                .paper = paper});
  if (const auto speed_up = modes.speed_up("packed"))
    report.add({.name = name,
                .mode = "seq-fused / packed",
                .value = speed_up->median(),
                .unit = "times",
                .spread = speed_up->spread()});
}

}  // namespace itif::bench
