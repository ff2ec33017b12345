#include "execution/slice_tuner.h"

#include <algorithm>

namespace itif::execution {

Status SliceTuner::add(uint32_t id, GroupStage& stage, const slice::GroupTerms& terms,
                       uint64_t now_ns) {
  ITIF_TRY(control_.add(id, terms, now_ns));
  if (groups_.empty()) next_ns_ = now_ns + options_.period_ns;
  groups_.push_back({.id = id, .stage = &stage, .read_ns = now_ns, .last = read(stage)});
  divide();
  return {};
}

Status SliceTuner::set_terms(uint32_t id, const slice::GroupTerms& terms, uint64_t now_ns) {
  ITIF_TRY(control_.set_terms(id, terms, now_ns));
  divide();
  return {};
}

Status SliceTuner::remove(uint32_t id, uint64_t now_ns) {
  ITIF_TRY(control_.remove(id, now_ns));
  std::erase_if(groups_, [id](const Group& group) { return group.id == id; });
  divide();
  return {};
}

void SliceTuner::set_device_percent(double percent, uint64_t now_ns) noexcept {
  control_.set_device_percent(percent, now_ns);
  divide();
}

void SliceTuner::skip(uint64_t now_ns) noexcept {
  next_ns_ = now_ns + options_.period_ns;
  for (Group& group : groups_) {
    group.read_ns = now_ns;
    group.last = read(*group.stage);
  }
}

bool SliceTuner::tick(uint64_t now_ns) noexcept {
  if (groups_.empty() || now_ns < next_ns_) return false;
  next_ns_ = now_ns + options_.period_ns;
  for (Group& group : groups_) observe(group, now_ns);
  if (!control_.decide(now_ns)) return false;
  divide();
  return true;
}

SliceTuner::Reading SliceTuner::read(const GroupStage& stage) noexcept {
  const telemetry::ExecutorCounters& c = stage.counters();
  return {.served = c.requests.read(),
          .refused = c.refused.read(),
          .waiting = uint64_t{stage.inbox().num_waiting()} + stage.num_executing(),
          .with_objective = c.with_objective.read(),
          .latency_ppm = c.latency_ppm.read(),
          .latency_ppm_squared = c.latency_ppm_squared.read(),
          .busy_ns = c.busy_ns.read(),
          .turn_wait_ns = c.turn_wait_ns.read(),
          .batches = c.batches.read(),
          .tokens = c.tokens.read(),
          .asks_for_more = c.asks_for_more.read(),
          .last_ask = static_cast<slice::Ask>(c.share_ask.read()),
          .tokens_squared = c.tokens_squared.read(),
          .tokens_us = c.tokens_us.read(),
          .us_squared = c.us_squared.read()};
}

// Many batches run between two readings. If the group asked for more after any of them, that
// counts, even if the last batch met its aim.
slice::Ask SliceTuner::ask_since(const Reading& last, const Reading& now) noexcept {
  if (now.asks_for_more != last.asks_for_more) return slice::Ask::kMore;
  return now.last_ask == slice::Ask::kLess ? slice::Ask::kLess : slice::Ask::kNothing;
}

void SliceTuner::observe(Group& group, uint64_t now_ns) noexcept {
  const Reading now = read(*group.stage);
  const Reading& last = group.last;
  const auto since = [](uint64_t later, uint64_t earlier) {
    return static_cast<double>(static_cast<int64_t>(later - earlier));  // also past a wrap
  };
  const double served = since(now.served, last.served);
  // A request that arrived was served or refused, or still waits. Refused ones count: they are the
  // demand that the group could not serve.
  const double arrived =
      served + since(now.refused, last.refused) + since(now.waiting, last.waiting);
  // Latencies are counted in ppm of each tenant's objective: scales them to the group's, in ns.
  const double ppm_ns = 1e-6 * static_cast<double>(control_.slo_ns(group.id));
  slice::Observation seen = {
      .elapsed_ns = now_ns - group.read_ns,
      .arrived = std::max(0.0, arrived),
      .served = served,
      .waiting = static_cast<double>(now.waiting),
      .busy_ns = now.busy_ns - last.busy_ns,
      .latencies = {.requests = since(now.with_objective, last.with_objective),
                    .ns = ppm_ns * since(now.latency_ppm, last.latency_ppm),
                    .ns_squared =
                        ppm_ns * ppm_ns * since(now.latency_ppm_squared, last.latency_ppm_squared)},
      .share_percent = group.used_percent,
      .ask = ask_since(last, now)};
  // If groups compute in turns, a group computes on the part of its busy time in which it had the
  // turn: more than its share while others are idle.
  const bool has_turns = group.stage->device().info().division == device::Division::kTime;
  if (has_turns && seen.busy_ns > 0) {
    const double waited =
        since(now.turn_wait_ns, last.turn_wait_ns) / static_cast<double>(seen.busy_ns);
    seen.share_percent = 100 * std::clamp(1 - waited, 0.01, 1.0);
  }
  // The steps of a group that generates are no batches of whole requests.
  const bool generates = group.stage->counters().kv_blocks.read() > 0;
  if (!generates) {
    seen.batches = {.batches = since(now.batches, last.batches),
                    .tokens = since(now.tokens, last.tokens),
                    .tokens_squared = since(now.tokens_squared, last.tokens_squared),
                    .ns = since(now.busy_ns, last.busy_ns),
                    .ns_squared = 1e6 * since(now.us_squared, last.us_squared),
                    .tokens_ns = 1e3 * since(now.tokens_us, last.tokens_us)};
    seen.max_batch_tokens = group.stage->group().options().max_tokens;
  }
  control_.observe(group.id, seen);
  group.last = now;
  group.read_ns = now_ns;
}

void SliceTuner::divide() noexcept {
  double sum = 0;
  for (const Group& group : groups_) sum += control_.share_percent(group.id);
  const double lent =
      options_.lends && sum > 0 ? std::max(1.0, control_.device_percent() / sum) : 1;
  for (Group& group : groups_) group.given_percent = lent * control_.share_percent(group.id);
}

double SliceTuner::given_percent(uint32_t id) const noexcept {
  const auto found = std::ranges::find(groups_, id, &Group::id);
  return found == groups_.end() ? 0 : found->given_percent;
}

void SliceTuner::note_given(uint32_t id, double percent) noexcept {
  const auto found = std::ranges::find(groups_, id, &Group::id);
  if (found != groups_.end()) found->used_percent = percent;
}

}  // namespace itif::execution
