#include "chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace itif::ctl {

using nlohmann::json;

namespace {

constexpr int kProcess = 1;

json named(const char* what, int thread, const std::string& name) {
  return {
      {"ph", "M"}, {"pid", kProcess}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}};
}

json event(const std::string& name, int thread, uint64_t from_ns, uint64_t ns) {
  return {{"ph", "X"},
          {"pid", kProcess},
          {"tid", thread},
          {"name", name},
          {"cat", "itif"},
          {"ts", static_cast<double>(from_ns) / 1e3},
          {"dur", static_cast<double>(ns) / 1e3}};
}

}  // namespace

std::string stage_before(const std::string& point) {
  static constexpr std::pair<const char*, const char*> kStages[] = {
      {"last_piece", "reassembly"}, {"verified", "verify"},  {"free", "queue"},
      {"queued", "intake"},         {"chosen", "queue"},     {"planned", "plan"},
      {"launched", "launch"},       {"computed", "compute"}, {"first_out", "respond"},
      {"last_out", "send"}};
  for (const auto& [at, stage] : kStages)
    if (point == at) return stage;
  return point;
}

json chrome_trace(const std::string& tenant, const json& requests) {
  uint64_t base_ns = UINT64_MAX;
  for (const json& request : requests)
    base_ns = std::min(base_ns, request.value("arrival_ns", uint64_t{0}));
  json events = json::array({named("process_name", 0, "tenant " + tenant)});
  int thread = 0;
  for (const json& request : requests) {
    ++thread;
    const uint64_t arrival_ns = request.value("arrival_ns", uint64_t{0}) - base_ns;
    const std::string name = fmt::format("request {}", request.value("request_id", uint64_t{0}));
    events.push_back(named("thread_name", thread, name));
    const size_t whole = events.size();
    events.push_back(nullptr);
    uint64_t before_ns = 0;
    for (const json& point : request.value("points", json::array())) {
      const uint64_t at_ns = std::max(before_ns, point.value("since_ns", uint64_t{0}));
      events.push_back(event(stage_before(point.value("point", "")), thread, arrival_ns + before_ns,
                             at_ns - before_ns));
      before_ns = at_ns;
    }
    events[whole] = event(name, thread, arrival_ns, before_ns);
    events[whole]["args"] = {{"session", request.value("session", 0u)},
                             {"worker", request.value("worker", 0u)},
                             {"tokens", request.value("tokens", 0u)},
                             {"status", request.value("status", "")}};
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace itif::ctl
