#include "modes.h"

#include <fmt/format.h>

#include <thread>

namespace itif::bench {
namespace {

Status check_same(std::string_view mode, const std::vector<float>& got,
                  const std::vector<float>& expected, uint32_t hidden) {
  if (got.size() != expected.size())
    return fail(Code::kInternal, fmt::format("{} answers {} values", mode, got.size()));
  for (size_t at = 0; at < got.size(); at += hidden) {
    const double similarity = cosine(got.data() + at, expected.data() + at, hidden);
    if (!(similarity >= 0.999))
      return fail(Code::kInternal, fmt::format("{}: tenant {} differs from what the other modes "
                                               "compute, cosine {}",
                                               mode, at / hidden, similarity));
  }
  return {};
}

}  // namespace

Result<std::map<std::string, Samples>> measure_modes(const Workload& workload,
                                                     const Effort& effort) {
  std::map<std::string, Samples> all;
  std::vector<float> expected;
  for (const std::string_view mode : execution_modes()) {
    ITIF_ASSIGN(const auto execution, make_execution(mode, workload));
    ITIF_ASSIGN(std::vector<float> states, execution->last_states());
    if (expected.empty())
      expected = std::move(states);
    else
      ITIF_TRY(check_same(mode, states, expected, workload.spec().hidden));
    Status status;
    all[std::string(mode)] = measure({[&] {
                                       if (Status ran = execution->run(); !ran) status = ran;
                                     }},
                                     effort)[0];
    ITIF_TRY(std::move(status));
  }
  return all;
}

Samples measure_floor(const Workload& workload, const Effort& effort) {
  const DType type = workload.dtype == "bf16" ? DType::kBF16 : DType::kF32;
  const uint32_t threads =
      workload.threads != 0 ? workload.threads : std::thread::hardware_concurrency();
  EncoderFloor floor(type, workload.spec(), workload.requests, threads);
  return measure({[&] { floor.run(); }}, effort)[0];
}

}  // namespace itif::bench
