// Runs a group's requests. submit() takes them in; step() and finish() hand each to the sink
// exactly once.
//
// Owned by one thread (the group's). GroupExecutor runs batches that end with their forward pass;
// GenerationExecutor runs sequences that stay for many steps. Virtual at batch granularity.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "device/device.h"
#include "plan/cost_tables.h"
#include "plan/plan.h"
#include "request/request.h"
#include "runtime/completion.h"
#include "runtime/generation_options.h"
#include "sched/batch_control.h"
#include "sched/batch_limits.h"
#include "sched/group_queue.h"
#include "slice/ask.h"

namespace itif::runtime {

struct ExecutorOptions {
  sched::BatchLimits limits = {};
  sched::GroupQueue::Limits queue = {};
  std::string scheduler = "fair";
  // Groups that generate have no batches to bound.
  sched::BatchControlKind batch_control = sched::BatchControlKind::kAimd;
  // Longest expected wait; a request that would wait longer, or past its deadline, is refused
  // immediately. Its client would have given up by then, and later requests would wait in
  // vain. 0: only deadlines limit it.
  uint64_t max_wait_ns = 1'000'000'000;
  GenerationOptions generation = {};  // of groups that generate
  bool stamps_stages = true;          // sets planned_ns and launched_ns (request/times.h)
};

// The work of one step, for the caller's counters.
struct BatchFigures {
  uint32_t num_requests = 0;  // completed after they ran
  uint32_t num_refused = 0;   // completed without running
  uint32_t num_tokens = 0;    // computed; 0: nothing ran
  uint32_t num_rows = 0;      // computed, padding included
  uint32_t num_tenants = 0;
  uint64_t execute_ns = 0;  // device time if the device measures it (Completion::device_ns)
  bool device_failed = false;
  // The planner that laid the batch out; empty: the executor did. Under auto also what each
  // planner's plan was expected to take.
  std::string_view planner;
  std::array<plan::Offer, plan::Plan::kMaxOffers> offers;
  uint32_t num_offers = 0;
};

// Memory that running requests keep from step to step, in blocks: a decoder's K/V cache. All 0:
// none.
struct CacheFigures {
  uint32_t num_blocks = 0;
  uint32_t num_used = 0;
  uint32_t num_reserved = 0;  // the most that running requests may need
};

class RequestExecutor {
 public:
  static constexpr uint32_t kMaxIntake = 1024;

  virtual ~RequestExecutor() = default;
  // REQUIRES: at most kMaxIntake calls between two calls of step(). This bounds how long a flood
  // delays the next batch.
  virtual void submit(request::Request* request) noexcept = 0;
  // Completes the oldest running batch if it has ended. Releases packets that other batches have
  // read. Begins another batch if requests wait and it is time. Completes the requests refused
  // since the last step. Returns the number of completed requests; `figures` describe the completed
  // batch.
  virtual size_t step(CompletionSink& sink, BatchFigures& figures) noexcept = 0;
  // Waits for the oldest running batch and completes it, as step() does. Begins none.
  // figures.num_tokens is 0 if none ran.
  virtual size_t finish(CompletionSink& sink, BatchFigures& figures) noexcept = 0;
  // Returns when step() must be called even if nothing is submitted; 0: never. An asynchronous
  // stream notifies separately when a batch ends (StreamOptions::on_done).
  virtual uint64_t next_step_ns() const noexcept = 0;
  // Returns true if step() would complete a batch.
  virtual bool has_results() const noexcept = 0;
  // Returns true if step() would release packets.
  virtual bool has_read_packets() const noexcept = 0;

  // Runs later batches on `stream`, which outlives the executor or the next call. REQUIRES: no
  // batch runs: finish() was called until none was left.
  virtual void use_stream(device::Stream& stream) noexcept = 0;

  // Returns why not every planner can be chosen; OK: set_planner() accepts any. Any thread.
  virtual Status supports_every_planner() const { return {}; }
  // Lays out the next batches with a planner. `device`: the stream's. `tables`: the group's; null:
  // not measured. Control's job thread. Errors: those of supports_every_planner() and
  // plan::make_planner().
  virtual Status set_planner(std::string_view name, const device::DeviceInfo& device,
                             const std::shared_ptr<const plan::CostTables>& tables) = 0;

  // Chooses later batches by another batch policy (sched/policy_spec.h), which takes over the
  // waiting requests. Allocates. Errors: kInvalidArgument; nothing has changed then.
  virtual Status set_scheduler(std::string_view scheduler) = 0;

  // Returns the verdict of the last batches on the group's share of its device.
  virtual slice::Ask share_ask() const noexcept { return slice::Ask::kNothing; }
  virtual CacheFigures cache() const noexcept { return {}; }  // after the last step
  virtual uint32_t num_queued() const noexcept = 0;
  // Returns the expected time to serve the queued requests; 0: unknown.
  virtual uint64_t backlog_ns() const noexcept = 0;
  // Number of running requests. Any thread.
  virtual uint32_t num_executing() const noexcept = 0;
  virtual bool device_failed() const noexcept = 0;
};

}  // namespace itif::runtime
