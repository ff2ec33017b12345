// Rows of itif-bench gemm-choice: query, key and value as one GEMM (fused) and as three (thesis),
// each with tenants sequentially and concurrently. The limit is one GEMM with the same total of
// rows and one tenant's weights. backbone/fused_attention.h explains why blocks use one GEMM.
#include "benches/gemm_choice_qkv.h"

#include <fmt/format.h>

#include <algorithm>

#include "workload/devices.h"
#include "workload/qkv.h"

namespace itif::bench {
namespace {

// Hidden sizes of the decoder and of the thesis's encoders.
constexpr uint32_t kHidden[] = {512, 768, 1024};
constexpr uint32_t kQkvTenants[] = {1, 2, 4, 16};
constexpr uint32_t kRows[] = {4, 32, 256};

Status run_case(const BenchOptions& options, device::Device& device, device::Stream& stream,
                const QkvSizes& sizes, const std::string& dtype, Report& report) {
  using enum kernels::GemmMode;
  const std::string suffix =
      fmt::format("{} tenants x {} rows of {}, {}", sizes.tenants, sizes.rows, sizes.hidden, dtype);
  const std::string names[] = {"qkv as one, " + suffix, "q, k, v side by side, " + suffix};
  if (!options.wants_any({"qkv", names[0], names[1]})) return {};
  const QkvNumbers numbers(device.info().compute.activations, sizes);
  ITIF_ASSIGN(const Qkv one, Qkv::make(device, numbers, 1, 0, sizes.tenants));
  ITIF_ASSIGN(const Qkv three, Qkv::make(device, numbers, 3, 0, sizes.tenants));
  const kernels::RowRange merged{.first_row = 0, .num_rows = sizes.tenants * sizes.rows, .slot = 0};
  std::vector<std::function<void()>> runs;
  for (const Qkv* qkv : {&one, &three})
    for (const kernels::GemmMode mode : {kSequential, kConcurrent}) {
      runs.push_back([&stream, qkv, mode] { qkv->launch(stream, qkv->ranges(), mode); });
      runs.back()();
      ITIF_TRY(stream.synchronize());
      ITIF_TRY(qkv->check(numbers, names[qkv == &one ? 0 : 1]));
    }
  runs.push_back([&] { one.launch(stream, {&merged, 1}, kSequential); });
  ITIF_ASSIGN(const auto samples,
              measure_short(stream, hardware_of(device.info()), runs, {},
                            options.quick ? Effort{.seconds = 0.02, .least = 5}
                                          : Effort{.seconds = 0.5, .least = 9}));
  for (size_t i = 0; i < 4; ++i)
    report.add({.name = names[i / 2],
                .mode = i % 2 == 0 ? "sequential" : "concurrent",
                .value = samples[i].median() * 1e-3,
                .unit = "us",
                .spread = samples[i].spread(),
                .limit = samples[4].median() * 1e-3,
                .ratio = samples[i].median() / samples[4].median()});
  const auto best = [&](size_t qkv) {
    return std::min(samples[2 * qkv].median(), samples[2 * qkv + 1].median());
  };
  report.add(
      {.name = names[1], .mode = "three / one", .value = best(1) / best(0), .unit = "times"});
  return {};
}

}  // namespace

Status qkv_choice_rows(const BenchOptions& options, device::Device& device, device::Stream& stream,
                       const std::string& dtype, Report& report) {
  for (const uint32_t hidden : kHidden)
    for (const uint32_t tenants : kQkvTenants)
      for (const uint32_t rows : kRows)
        ITIF_TRY(run_case(options, device, stream, {hidden, tenants, rows}, dtype, report));
  return {};
}

}  // namespace itif::bench
