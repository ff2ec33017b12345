// Rows of itif-bench gemm-choice: query, key and value as one GEMM, as blocks are made of, and as three side
// by side, as in the thesis's form, each in turn and at once; against one GEMM of as many rows with one
// tenant's weights. What decides between the forms stands in backbone/encoder_block.h.
#include "gemm_choice_qkv.h"

#include <fmt/format.h>

#include <algorithm>

#include "devices.h"
#include "qkv.h"

namespace itif::bench {
namespace {

// Of the decoder and of the encoders that the thesis has.
constexpr uint32_t kHidden[] = {512, 768, 1024};
constexpr uint32_t kCounts[] = {1, 2, 4, 16};
constexpr uint32_t kRows[] = {4, 32, 256};

Status run_case(const BenchOptions& options, device::Device& device, device::Stream& stream,
                const QkvSizes& sizes, const std::string& dtype, Report& report) {
  using enum kernels::GemmMode;
  const std::string of =
      fmt::format("{} tenants x {} rows of {}, {}", sizes.tenants, sizes.rows, sizes.hidden, dtype);
  const std::string names[] = {"qkv as one, " + of, "q, k, v side by side, " + of};
  if (!options.wants("qkv") && !options.wants(names[0]) && !options.wants(names[1])) return {};
  const QkvNumbers numbers(device.info().compute, sizes);
  ITIF_ASSIGN(const Qkv one, Qkv::make(device, numbers, 1, 0, sizes.tenants));
  ITIF_ASSIGN(const Qkv three, Qkv::make(device, numbers, 3, 0, sizes.tenants));
  const kernels::RowRange merged{.first_row = 0, .num_rows = sizes.tenants * sizes.rows, .slot = 0};
  std::vector<std::function<void()>> runs;
  for (const Qkv* form : {&one, &three})
    for (const kernels::GemmMode mode : {kInTurn, kAtOnce}) {
      runs.push_back([&stream, form, mode] { form->launch(stream, form->ranges(), mode); });
      runs.back()();
      ITIF_TRY(stream.synchronize());
      ITIF_TRY(form->check(numbers, names[form == &one ? 0 : 1]));
    }
  runs.push_back([&] { one.launch(stream, {&merged, 1}, kInTurn); });
  ITIF_ASSIGN(const auto samples,
              measure_short(stream, hardware_of(device.info()), runs, {},
                            options.quick ? Effort{.seconds = 0.02, .least = 5}
                                          : Effort{.seconds = 0.5, .least = 9}));
  for (size_t i = 0; i < 4; ++i)
    report.add({.name = names[i / 2],
                .mode = i % 2 == 0 ? "in turn" : "at once",
                .value = samples[i].median() * 1e-3,
                .unit = "us",
                .spread = samples[i].spread(),
                .limit = samples[4].median() * 1e-3,
                .ratio = samples[i].median() / samples[4].median()});
  const auto best = [&](size_t form) {
    return std::min(samples[2 * form].median(), samples[2 * form + 1].median());
  };
  report.add(
      {.name = names[1], .mode = "three / one", .value = best(1) / best(0), .unit = "times"});
  return {};
}

}  // namespace

Status qkv_choice_rows(const BenchOptions& options, device::Device& device, device::Stream& stream,
                       const std::string& dtype, Report& report) {
  for (const uint32_t hidden : kHidden)
    for (const uint32_t tenants : kCounts)
      for (const uint32_t rows : kRows)
        ITIF_TRY(run_case(options, device, stream, {hidden, tenants, rows}, dtype, report));
  return {};
}

}  // namespace itif::bench
