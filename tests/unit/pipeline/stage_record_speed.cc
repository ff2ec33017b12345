// Measures what recording the stages of an answered request costs, without packets, rings or other
// threads: StageRecorder beside the reference that records one request after the other. Not a test:
// it fails only if their figures differ.
//   stage_record_speed [SECONDS]
//
// Both take turns on the same bursts, so that other load on the machine affects both alike.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "pipeline/stage_recorder.h"
#include "plain_stages.h"

namespace itif::pipeline::test {
namespace {

constexpr size_t kRequests = 16384;  // of a turn: their times fit the L2 cache of few machines
const SystemClock kClock;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double ns_per_request(const std::function<void()>& turn) {
  const uint64_t start_ns = kClock.now_ns();
  turn();
  return static_cast<double>(kClock.now_ns() - start_ns) / kRequests;
}

Status check(const StageRecorder& recorder, const PlainStages& plain, uint32_t num_tenants) {
  for (uint32_t tenant = 0; tenant < num_tenants; ++tenant) {
    StageFigures figures;
    recorder.tenants().merge_into(tenant, figures);
    const StageFigures& expected = plain.of_tenant(tenant);
    if (figures.counts != expected.counts || figures.sums.ns != expected.sums.ns ||
        figures.sums.num_requests != expected.sums.num_requests)
      return fail(Code::kInternal, fmt::format("the figures of tenant {} differ", tenant));
  }
  return {};
}

Status measure(uint32_t num_tenants, size_t at_once, double seconds) {
  const std::vector<Answered> answered =
      make_bursts(kRequests / at_once, at_once, num_tenants, num_tenants);
  const auto bursts = [&](const auto& record) {
    for (size_t first = 0; first < answered.size(); first += at_once)
      record(std::span(answered).subspan(first, at_once));
  };
  StageRecorder recorder(true);
  PlainStages plain(num_tenants);
  const auto in_blocks = [&] {
    bursts([&](std::span<const Answered> burst) {
      for (const Answered& one : burst) recorder.add(one.tenant_index, one.times);
      recorder.flush();
    });
  };
  const auto one_by_one = [&] {
    bursts([&](std::span<const Answered> burst) { plain.record(burst); });
  };
  in_blocks();
  one_by_one();
  ITIF_TRY(check(recorder, plain, num_tenants));
  std::vector<double> block_ns, single_ns;
  const uint64_t start_ns = kClock.now_ns();
  do {
    block_ns.push_back(ns_per_request(in_blocks));
    single_ns.push_back(ns_per_request(one_by_one));
  } while (static_cast<double>(kClock.now_ns() - start_ns) < seconds * 1e9);
  ITIF_TRY(check(recorder, plain, num_tenants));
  fmt::print("{:7} {:7} {:13.1f} {:15.1f} {:6}\n", num_tenants, at_once, median(block_ns),
             median(single_ns), block_ns.size());
  return {};
}

Status run(double seconds) {
  fmt::print("tenants at once ns per request one by one, ns  turns\n");
  constexpr uint32_t kTenants[] = {4, 1000};
  constexpr size_t kAtOnce[] = {1, 16, 64};
  for (const uint32_t num_tenants : kTenants)
    for (const size_t at_once : kAtOnce)
      ITIF_TRY(measure(num_tenants, at_once, seconds / std::size(kTenants) / std::size(kAtOnce)));
  return {};
}

}  // namespace
}  // namespace itif::pipeline::test

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 6;
  if (argc > 2 || seconds <= 0) {
    fmt::print(stderr, "usage: stage_record_speed [SECONDS]\n");
    return 2;
  }
  if (const itif::Status status = itif::pipeline::test::run(seconds); !status) {
    fmt::print(stderr, "stage_record_speed: {}\n", status.error().message);
    return 1;
  }
  return 0;
}
