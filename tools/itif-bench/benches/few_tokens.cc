// itif-bench few-tokens: many tenants with few tokens each, by execution mode (execution.h). There
// a tenant's requests alone do not fill the device, and launches cost much of the time. This is
// where the thesis expects most of one instance (section 5.3); Table 5.2 has larger requests.
//
//   8 tokens      one request of 8 tokens per tenant
//   1-16 tokens   one request per tenant, lengths evenly from 1 to 16
//   skewed        the first tenant has eight requests of 16 tokens, the others one of 4
#include <fmt/format.h>

#include "peers/modes.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

constexpr uint32_t kQuickFewLayers = 2;
constexpr const char* kModesOnHost =
    "seq and itif run each operator on all cores, and wait for the slowest core after it. "
    "multi-stream and mps give each tenant's pass a share of the cores, so fewer cores wait for "
    "each "
    "other. This can save more than itif does if an operator takes only microseconds. packed has "
    "fewer operators, and divides a GEMM's tenants among the cores if that is faster";

enum class Load { kEight, kEven, kSkewed };

struct FewTokens {
  const char* preset;
  uint32_t tenants;
  Load load;
};
constexpr FewTokens kCases[] = {
    {"albert-large", 4, Load::kEight}, {"albert-large", 4, Load::kEven},
    {"albert-large", 16, Load::kEven}, {"albert-large", 16, Load::kSkewed},
    {"minilm-l6", 4, Load::kEven},     {"minilm-l6", 16, Load::kEven},
    {"minilm-l6", 64, Load::kEven},    {"minilm-l6", 16, Load::kSkewed},
    {"bert-tiny", 4, Load::kEven},     {"bert-tiny", 16, Load::kEven},
    {"bert-tiny", 64, Load::kEven},    {"bert-tiny", 16, Load::kSkewed},
};

const char* name_of(Load load) {
  switch (load) {
    case Load::kEight: return "8 tokens";
    case Load::kEven: return "1-16 tokens";
    case Load::kSkewed: return "skewed";
  }
  return "";
}

std::vector<uint32_t> lengths_of(const FewTokens& c, uint32_t tenant) {
  switch (c.load) {
    case Load::kEight: return {8};
    case Load::kEven: return {1 + 16 * tenant / c.tenants};
    case Load::kSkewed:
      return tenant == 0 ? std::vector<uint32_t>(8, 16) : std::vector<uint32_t>{4};
  }
  return {};
}

Status run_case(const BenchOptions& options, const FewTokens& c, const Hardware& on,
                Report& report) {
  const std::string name =
      fmt::format("{}{}, {} tenants, {}, {}", c.preset,
                  options.quick ? fmt::format(" ({} layers)", kQuickFewLayers) : "", c.tenants,
                  name_of(c.load), compute_name(on.compute));
  if (!options.wants_any({name, c.preset})) return {};
  Workload workload{.preset = c.preset,
                    .layers = options.quick ? kQuickFewLayers : 0,
                    .requests = {.name = {}, .lengths = {}},
                    .on = on,
                    .attention = options.attention};
  for (uint32_t tenant = 0; tenant < c.tenants; ++tenant)
    workload.requests.lengths.push_back(lengths_of(c, tenant));
  const Effort effort = options.quick ? Effort{.seconds = 0, .least = 1, .warm_ups = 1}
                                      : Effort{.seconds = 1,
                                               .least = 5,
                                               .settled = kLongRuns.settled,
                                               .patience = kLongRuns.patience,
                                               .reruns = 1};
  ITIF_ASSIGN(const ModeSamples modes, measure_modes(workload, effort));
  add_latencies(
      name, workload, modes, [](size_t) { return std::nullopt; }, report);
  add_speed_ups(name, modes, std::nullopt, report);
  return {};
}

}  // namespace

Status bench_few_tokens(const BenchOptions& options, Report& report) {
  return on_each_device(options, report, [&](device::Device& device, const std::string&) -> Status {
    for (const FewTokens& c : kCases)
      ITIF_TRY(run_case(options, c, hardware_of(device.info()), report));
    if (device.info().kind == "host") report.note(kModesOnHost);
    return {};
  });
}

}  // namespace itif::bench
