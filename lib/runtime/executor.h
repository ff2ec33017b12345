// A group's executor: queue → scheduler → plan → Group::forward → completion.
//
// Owned by one thread (the group's). submit() checks a request against its model, tokenises text and
// queues it; step() runs at most one batch. Every submitted request is handed to the sink exactly
// once, from submit() never, from step() or flush(): with a result, or with a status that says why not.
// Requests stay their worker's (request.h); the executor only borrows them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "plan/packed.h"
#include "runtime/completion.h"
#include "runtime/cost_estimate.h"
#include "runtime/group.h"
#include "runtime/text_pool.h"
#include "sched/batch_bound.h"
#include "sched/group_queue.h"
#include "sched/scheduler.h"
#include "sched/urgent.h"

namespace itif::runtime {

struct ExecutorOptions {
  sched::BatchLimits limits;
  sched::GroupQueue::Limits queue;
  std::string scheduler = "fair";
  // A request that would wait longer behind its own tenant's is refused at once: its client would
  // have given up by the time of its turn, and others after it would wait for nothing. 0: never.
  uint64_t max_wait_ns = 2'000'000'000;
};

// What one step did, for the counters of whoever drives the executor.
struct BatchFigures {
  uint32_t num_requests = 0;
  uint32_t num_tokens = 0;
  uint32_t num_tenants = 0;
  uint64_t execute_ns = 0;
  bool device_failed = false;
};

class GroupExecutor {
 public:
  static constexpr uint32_t kMaxIntake = 1024;

  // `group`, `stream` and `clock` outlive the executor. Errors: kInvalidArgument (scheduler's name).
  static Result<std::unique_ptr<GroupExecutor>> create(Group& group, device::Stream& stream,
                                                       const Clock& clock,
                                                       const ExecutorOptions& options);

  // REQUIRES: at most kMaxIntake calls between two of step(): what a flood costs the batch that waits.
  void submit(request::Request* request) noexcept;
  // Runs the next batch, if anything waits, and completes what was refused since the last step.
  // Returns the requests completed.
  size_t step(CompletionSink& sink, BatchFigures& figures) noexcept;

  uint32_t num_queued() const noexcept { return queue_.num_requests(); }
  uint64_t queued_tokens() const noexcept { return queue_.num_tokens(); }
  // Requests of the batch that runs now. Any thread.
  uint32_t num_executing() const noexcept { return num_executing_.load(std::memory_order_relaxed); }
  bool device_failed() const noexcept { return device_failed_; }

 private:
  GroupExecutor(Group& group, device::Stream& stream, const Clock& clock,
                const ExecutorOptions& options, std::unique_ptr<sched::Scheduler> scheduler);
  void refuse(request::Request* request, wire::StatusCode status, const char* detail) noexcept;
  bool prepare(request::Request* request) noexcept;
  bool acquire_text(request::Request* request) noexcept;
  bool prepare_ids(request::Request* request, const model::TenantModel& model) noexcept;
  bool prepare_text(request::Request* request, const model::TenantModel& model) noexcept;
  void expire(std::vector<request::Request*>& batch, uint64_t now_ns) noexcept;
  size_t complete_refused(CompletionSink& sink) noexcept;
  void choose_batch(uint64_t now_ns, uint64_t slo_ns) noexcept;
  void build_batch(uint64_t now_ns) noexcept;
  void finish_batch(uint64_t done_ns) noexcept;
  double expected_wait_ns(uint32_t slot) noexcept;

  Group& group_;
  device::Stream& stream_;
  const Clock& clock_;
  ExecutorOptions options_;
  std::unique_ptr<sched::Scheduler> scheduler_;
  sched::GroupQueue queue_;
  TextPool texts_;
  std::string text_;  // scratch: one payload in one place
  std::vector<request::Request*> refused_;
  std::vector<request::Request*> batch_;
  std::vector<request::Request*> ordered_;  // batch_ in the plan's order
  std::vector<plan::Item> items_;
  std::vector<plan::Segment> plan_;
  std::vector<Segment> segments_;
  std::vector<kernels::IdPiece> pieces_;
  CostEstimate cost_;
  sched::BatchBound bound_;
  sched::Urgent urgent_;
  bool device_failed_ = false;
  std::atomic<uint32_t> num_executing_{0};
};

}  // namespace itif::runtime
