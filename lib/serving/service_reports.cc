#include "serving/service_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "serving/service_manager.h"
#include "serving/watchdog.h"

namespace itif::serving {

void answer_watchdog(MainLoop& loop, const Clock& clock, control::Server& server,
                     const pipeline::Pipeline& plane) {
  const uint64_t period_ns = watchdog_ns();
  if (period_ns == 0) return;
  std::vector<Watchdog::Part> parts;
  parts.push_back({"control", [&server] { return server.turns(); }});
  for (const auto& worker : plane.workers())
    parts.push_back({fmt::format("worker {}", worker->options().id),
                     [&plane, &worker = *worker]() -> std::optional<uint64_t> {
                       if (!plane.is_running()) return std::nullopt;  // during a handover
                       return worker.counters().polls.read();
                     }});
  // A message is due twice per period at least.
  auto watchdog = std::make_shared<Watchdog>(clock, std::move(parts), period_ns / 2);
  loop.every(std::max<uint64_t>(period_ns / 4, 1'000'000), [watchdog] {
    if (watchdog->all_progress()) notify("WATCHDOG=1");
  });
}

void report_start(MainLoop& loop, const TenantService& service) {
  constexpr uint64_t kPeriodNs = 5'000'000'000;
  const auto report = [&loop, &service] {
    if (!loop.is_ready())
      notify(
          fmt::format("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=Loading models: {} of {} "
                      "tenants",
                      service.num_loaded(), service.list().size()));
  };
  report();  // also if the start takes no time
  loop.every(kPeriodNs, report);
}

void report_stop(uint64_t drain_timeout_ns) {
  constexpr uint64_t kEndNs = 10'000'000'000;  // to stop after the drain
  notify(fmt::format("STOPPING=1\nEXTEND_TIMEOUT_USEC={}\nSTATUS=Answering accepted requests",
                     (drain_timeout_ns + kEndNs) / 1000));
}

}  // namespace itif::serving
