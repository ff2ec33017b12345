#include "workload/concat_load.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "runtime/cost/profiler.h"
#include "runtime/make_group.h"
#include "runtime/request_executor.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

constexpr uint32_t kMaxWaiting = 16'384;
constexpr uint64_t kLongestSleepNs = 1'000'000;
constexpr std::chrono::nanoseconds kBetweenAsking{20'000};

}  // namespace

Result<std::unique_ptr<runtime::RequestExecutor>> ConcatGroup::executor(
    const ConcatMode& mode, const char* scheduler) const {
  runtime::ExecutorOptions options;
  options.limits = {.max_tokens = mode.max_tokens, .max_requests = mode.max_requests};
  options.queue = {.max_requests = kMaxWaiting, .max_tenant_requests = kMaxWaiting, .max_slots = 1};
  options.scheduler = scheduler;
  options.max_wait_ns = 0;  // only deadlines limit the wait, as in the paper
  ITIF_ASSIGN(auto made, group->make_executor(*stream, kSystemClock, options));
  ITIF_TRY(made->set_planner(mode.planner, device, tables));
  return made;
}

Result<ConcatGroup> make_concat_group(device::Device& device, const model::BackboneSpec& spec,
                                      const std::filesystem::path& model) {
  ConcatGroup made{.bell = std::make_unique<std::counting_semaphore<>>(0),
                   .group = {},
                   .stream = {},
                   .tables = {},
                   .device = device.info()};
  ITIF_ASSIGN(made.group, runtime::make_group(device, spec,
                                              {.max_tokens = kMostBatchTokens,
                                               .max_requests = kMostBatchTokens / kMinLength,
                                               .max_tenants = 1}));
  ITIF_TRY(made.group->admit(model.string(), nullptr));
  ITIF_ASSIGN(made.stream,
              device.make_stream(made.group->stream_limits(),
                                 {.is_async = true,
                                  .clock = &kSystemClock,
                                  .on_done = [bell = made.bell.get()] { bell->release(); }}));
  ITIF_ASSIGN(const auto profile_stream, device.make_stream(made.group->stream_limits()));
  runtime::Profiler profiler(device, kSystemClock, made.group->gemms(), "concat",
                             runtime::profile_options(*made.group));
  while (profiler.step(*profile_stream)) {
  }
  ITIF_ASSIGN(plan::CostTables tables, profiler.finish());
  made.tables = std::make_shared<const plan::CostTables>(std::move(tables));
  return made;
}

ConcatLoad::ConcatLoad(const ConcatGroup& group, double variance, uint32_t vocab)
    : group_(group), variance_(variance) {
  Random random(7);
  ids_.resize(1 << 16);
  for (uint32_t& id : ids_) id = static_cast<uint32_t>(random.below(vocab));
}

ConcatLoad::Figures ConcatLoad::run(runtime::RequestExecutor& executor, double rate,
                                    uint64_t longest_batch_ns, uint64_t warm_up_ns,
                                    uint64_t measured_ns) {
  Random random(11);
  figures_ = {.seconds = static_cast<double>(measured_ns) * 1e-9};
  const uint64_t start_ns = kSystemClock.now_ns();
  count_from_ns_ = start_ns + warm_up_ns;
  const uint64_t end_ns = count_from_ns_ + measured_ns;
  const auto gap_ns = [&] { return static_cast<uint64_t>(random.exponential() / rate * 1e9); };
  uint64_t next_ns = start_ns + gap_ns();
  while (next_ns < end_ns) {
    const uint64_t now_ns = kSystemClock.now_ns();
    for (uint32_t i = 0; next_ns <= now_ns && i < executor.kMaxIntake; ++i) {
      const double budget = 1.3 + 5.4 * random.uniform();
      submit(executor, draw_length(random), next_ns,
             next_ns + static_cast<uint64_t>(budget * static_cast<double>(longest_batch_ns)));
      next_ns += gap_ns();
    }
    step(executor, next_ns);
  }
  while (num_in_flight() > 0) step(executor, kSystemClock.now_ns() + kLongestSleepNs);
  return figures_;
}

uint64_t ConcatLoad::run_alone(runtime::RequestExecutor& executor,
                               std::vector<std::vector<float>>& results) {
  results_ = nullptr;
  uint64_t longest_ns = UINT64_MAX;
  for (int turn = 0; turn < 3; ++turn) {
    const uint64_t start_ns = kSystemClock.now_ns();
    for (uint32_t i = 0; i < kBatchRows; ++i) submit(executor, kRowTokens, start_ns, 0);
    while (num_in_flight() > 0) step(executor, kSystemClock.now_ns() + kLongestSleepNs);
    longest_ns = std::min(longest_ns, kSystemClock.now_ns() - start_ns);
  }
  results.assign(kRowTokens + 1, {});
  results_ = &results;
  for (uint32_t tokens = kMinLength; tokens <= kRowTokens; ++tokens)
    submit(executor, tokens, kSystemClock.now_ns(), 0);
  while (num_in_flight() > 0) step(executor, kSystemClock.now_ns() + kLongestSleepNs);
  results_ = nullptr;
  return longest_ns;
}

void ConcatLoad::complete(std::span<request::Request* const> completed) noexcept {
  const uint64_t now_ns = kSystemClock.now_ns();
  for (request::Request* request : completed) {
    using enum wire::StatusCode;
    const bool counts = request->arrival_ns >= count_from_ns_;
    if (request->status == kOk) {
      if (counts && now_ns <= request->deadline_ns) {
        ++figures_.in_time;
        figures_.utility += 1.0 / request->num_tokens;
      }
      if (results_ != nullptr) keep(*request);
    } else if (request->status != kDeadlineQueue && request->status != kDeadlineLaunch &&
               request->status != kOverloaded) {
      ++figures_.failed;
    }
    std::free(request->result.data);
    free_.push_back(static_cast<size_t>(request->request_id));
  }
}

uint32_t ConcatLoad::draw_length(Random& random) const {
  for (;;) {  // values outside are drawn again
    const double length = std::round(kMeanLength + std::sqrt(variance_) * random.normal());
    if (length >= kMinLength && length <= kRowTokens) return static_cast<uint32_t>(length);
  }
}

void ConcatLoad::submit(runtime::RequestExecutor& executor, uint32_t tokens, uint64_t arrival_ns,
                        uint64_t deadline_ns) {
  if (free_.empty()) {
    free_.push_back(requests_.size());
    requests_.emplace_back();
  }
  const size_t at = free_.back();
  free_.pop_back();
  InFlight& one = requests_[at];
  // The payload is a part of ids_, at an offset that depends on its length.
  one.piece = {reinterpret_cast<const std::byte*>(ids_.data() + size_t{tokens} * kRowTokens),
               static_cast<uint32_t>(tokens * sizeof(uint32_t))};
  one.request = {};
  one.request.request_id = at;
  one.request.payload_kind = wire::PayloadKind::kTokensU32;
  one.request.payload_bytes = one.piece.bytes;
  one.request.pieces = {&one.piece, 1};
  one.request.arrival_ns = one.request.complete_ns = arrival_ns;
  one.request.deadline_ns = deadline_ns;
  executor.submit(&one.request);
}

// One turn of a group's thread. Sleeps until something is due.
void ConcatLoad::step(runtime::RequestExecutor& executor, uint64_t next_arrival_ns) {
  runtime::BatchFigures batch;
  const size_t completed = executor.step(*this, batch);
  if (completed > 0 || batch.num_tokens > 0 || executor.has_results()) return;
  uint64_t wake_ns = next_arrival_ns;
  if (const uint64_t step_ns = executor.next_step_ns(); step_ns != 0)
    wake_ns = std::min(wake_ns, step_ns);
  const uint64_t now_ns = kSystemClock.now_ns();
  if (wake_ns <= now_ns) return;
  const std::chrono::nanoseconds sleep(std::min(wake_ns - now_ns, kLongestSleepNs));
  // A stream without a callback must be polled.
  (void)group_.bell->try_acquire_for(
      group_.stream->calls_on_done() ? sleep : std::min(sleep, kBetweenAsking));
}

void ConcatLoad::keep(const request::Request& request) {
  std::vector<float>& values = (*results_)[request.num_tokens];
  values.resize(request.result.bytes / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), request.result.data, request.result.bytes);
}

}  // namespace itif::bench
