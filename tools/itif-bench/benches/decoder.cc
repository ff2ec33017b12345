// itif-bench decoder: one step of Marian's decoder (6 layers, hidden 512, 8 heads, beam 4) over
// given encoder outputs. The limit is the step's GEMMs alone.
//
// Rows: tenants as one instance and sequentially (row Decoding of Table 5.2), and steps after some
// sequences have finished and their rows are removed. Costs decide whether the tenants' GEMMs run
// sequentially or concurrently; both are also measured.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "benches.h"
#include "workload/decoder_setup.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"

namespace itif::bench {
namespace {

constexpr uint32_t kPosition = 31;  // of the measured token
constexpr uint32_t kMaxSequences = 64;

// The thesis's SEQ and ITIF with 2 to 5 tenants, in ms.
constexpr double kPaper[4][2] = {{46.10, 24.38}, {70.13, 40.48}, {94.42, 54.21}, {117.77, 70.30}};

struct Setup {
  device::Device& device;
  model::BackboneSpec spec;
  std::unique_ptr<DecoderSetup> decoder;
};

Result<Setup> make_setup(const BenchOptions& options, device::Device& device, uint32_t tenants) {
  Setup setup{
      .device = device, .spec = backbone::find_preset("marian").value()->spec, .decoder = {}};
  if (options.quick) setup.spec.vocab = 8000;
  ITIF_ASSIGN(setup.decoder, DecoderSetup::make(device, setup.spec,
                                                {.num_tenants = tenants,
                                                 .max_sequences = kMaxSequences,
                                                 .max_tokens = kPosition + 1}));
  return setup;
}

// live: the indices of the running sequences, divided evenly among tenants in order.
StepRows make_rows(const std::vector<uint32_t>& live, uint32_t tenants) {
  StepRows rows(kPosition, kPosition + 1);
  for (size_t i = 0; i < live.size(); ++i)
    rows.add({.slot = static_cast<uint32_t>(i * tenants / live.size()),
              .index = live[i],
              .seed = static_cast<uint32_t>(i)});
  return rows;
}

// Compares the best token of each row. Close scores may swap ranks if sums are rounded
// differently. In f32 the best token must be equal; otherwise it must be among the expected
// candidates.
Status check_found(DType compute, const std::vector<int32_t>& found,
                   const std::vector<int32_t>& expected, const std::string& what) {
  for (size_t row = 0; row < found.size(); row += kCandidates) {
    const auto best = std::span(expected).subspan(row, compute == DType::kF32 ? 1 : kCandidates);
    if (std::ranges::find(best, found[row]) == best.end())
      return fail(Code::kInternal, fmt::format("row {}: best token is {} {}, must be {}",
                                               row / kCandidates, found[row], what, expected[row]));
  }
  return {};
}

// Every row must find the same token as when its tenant runs alone.
Status check_alone(Setup& setup, const StepRows& all, const std::vector<StepRows>& each) {
  ITIF_ASSIGN(const std::vector<int32_t> together, setup.decoder->found(all));
  std::vector<int32_t> apart;
  for (const StepRows& one : each) {
    ITIF_ASSIGN(const std::vector<int32_t> found, setup.decoder->found(one));
    apart.insert(apart.end(), found.begin(), found.end());
  }
  return check_found(setup.device.info().compute.activations, together, apart,
                     "with the other tenants");
}

std::string tenants_case(uint32_t tenants, const std::string& dtype) {
  return fmt::format("{} tenants x 4 beams, {}", tenants, dtype);
}
std::string finished_case(uint32_t finished, const std::string& dtype) {
  return fmt::format("8 run, {} have finished, {}", finished, dtype);
}

Status run_tenants(const BenchOptions& options, Setup& setup, const std::string& dtype,
                   uint32_t tenants, Report& report) {
  const std::string name = tenants_case(tenants, dtype);
  if (!options.wants(name)) return {};
  std::vector<uint32_t> live(tenants);
  std::iota(live.begin(), live.end(), 0u);
  const StepRows all = make_rows(live, tenants);
  setup.decoder->encode_sources(all);
  std::vector<StepRows> each;
  for (uint32_t tenant = 0; tenant < tenants; ++tenant) {
    each.emplace_back(kPosition, kPosition + 1);
    each.back().add({.slot = tenant, .index = tenant, .seed = tenant});
  }
  ITIF_TRY(check_alone(setup, all, each));
  ITIF_ASSIGN(const auto floor,
              step_floor(hardware_of(setup.device.info()), setup.spec, all.ranges(), 1));
  Status status;
  const auto step = [&](const StepRows& rows, std::optional<kernels::GemmMode> mode = {}) {
    if (const auto found = setup.decoder->found(rows, mode); !found)
      status = std::unexpected(found.error());
  };
  const auto samples = measure({[&] {
                                  for (const StepRows& one : each) step(one);
                                },
                                [&] { step(all); }, [&] { floor->run(); },
                                [&] { step(all, kernels::GemmMode::kSequential); },
                                [&] { step(all, kernels::GemmMode::kConcurrent); }},
                               options.effort());
  ITIF_TRY(std::move(status));
  const double limit = samples[2].median() * 1e-6;
  const char* const modes[] = {"seq", "itif", nullptr, "itif, sequential GEMMs",
                               "itif, concurrent GEMMs"};
  for (const size_t mode : {0, 1, 3, 4})
    report.add({.name = name,
                .mode = modes[mode],
                .value = samples[mode].median() * 1e-6,
                .unit = "ms",
                .spread = samples[mode].spread(),
                .limit = limit,
                .ratio = samples[mode].median() * 1e-6 / limit});
  const bool in_paper = !options.quick && tenants >= 2 && tenants <= 5;
  report.add({.name = name,
              .mode = "seq / itif",
              .value = samples[0].median() / samples[1].median(),
              .unit = "times",
              .paper = in_paper ? std::optional(kPaper[tenants - 2][0] / kPaper[tenants - 2][1])
                                : std::nullopt});
  return {};
}

constexpr uint32_t kRunning = 8;
constexpr uint32_t kSequences[] = {8, 16, 64};

// 8 sequences run and 0, 8 or 56 have finished; the blocks of both are interleaved.
Status run_finished(const BenchOptions& options, Setup& setup, const std::string& dtype,
                    Report& report) {
  std::vector<StepRows> steps;
  std::vector<std::string> names;
  for (const uint32_t total : kSequences) {
    std::vector<uint32_t> live;
    for (uint32_t i = 0; i < kRunning; ++i) live.push_back(i * total / kRunning);
    steps.push_back(make_rows(live, 1));
    names.push_back(finished_case(total - kRunning, dtype));
  }
  // The results must not depend on the blocks that hold the cache.
  std::vector<int32_t> expected;
  for (size_t i = 0; i < steps.size(); ++i) {
    setup.decoder->encode_sources(steps[i]);
    ITIF_ASSIGN(std::vector<int32_t> found, setup.decoder->found(steps[i]));
    if (i == 0) expected = found;
    ITIF_TRY(
        check_found(setup.device.info().compute.activations, found, expected, "in " + names[i]));
  }
  if (std::ranges::none_of(names, [&](const std::string& name) { return options.wants(name); }))
    return {};
  report.note("with finished sequences, the limit is the step in which none has finished");
  Status status;
  std::vector<std::function<void()>> runs;
  for (const StepRows& rows : steps)
    runs.push_back([&] {
      if (const auto found = setup.decoder->found(rows); !found)
        status = std::unexpected(found.error());
    });
  const auto samples = measure(runs, options.effort());
  ITIF_TRY(std::move(status));
  for (size_t i = 0; i < names.size(); ++i)
    if (options.wants(names[i]))
      report.add({.name = names[i],
                  .mode = "itif",
                  .value = samples[i].median() * 1e-6,
                  .unit = "ms",
                  .spread = samples[i].spread(),
                  .limit = samples[0].median() * 1e-6,
                  .ratio = samples[i].median() / samples[0].median()});
  return {};
}

}  // namespace

Status bench_decoder(const BenchOptions& options, Report& report) {
  constexpr uint32_t kTenants[] = {1, 2, 3, 4, 5};
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        std::vector<std::string> names;
        for (const uint32_t tenants : kTenants) names.push_back(tenants_case(tenants, dtype));
        for (const uint32_t total : kSequences)
          names.push_back(finished_case(total - kRunning, dtype));
        if (!options.wants_any(names)) return {};
        auto setup = make_setup(options, device, std::end(kTenants)[-1]);
        if (!setup && setup.error().code == Code::kResourceExhausted) {
          report.note(fmt::format("skipped {}: {}", dtype, setup.error().message));
          return {};
        }
        if (!setup) return std::unexpected(setup.error());
        for (const uint32_t tenants : kTenants)
          ITIF_TRY(run_tenants(options, *setup, dtype, tenants, report));
        return run_finished(options, *setup, dtype, report);
      });
}

}  // namespace itif::bench
