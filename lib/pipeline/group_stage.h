// A group as a stage of the pipeline: requests in by a ring, batches through the executor, requests
// back to their workers by theirs.
//
// Workers call push(); poll() and run() belong to the group's own thread; control calls the Group's
// admit() and release(), start() and stop().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "device/device.h"
#include "pipeline/idle.h"
#include "pipeline/request_ring.h"
#include "pipeline/return_ring.h"
#include "runtime/executor.h"
#include "runtime/group.h"
#include "telemetry/counters.h"

namespace itif::pipeline {

struct GroupStageOptions {
  runtime::ExecutorOptions executor;
  IdlePolicy idle;
  std::vector<unsigned> cpus;  // where its thread and the device's threads may run; empty: anywhere
  // Launches run apart from the group's thread: it prepares a batch while another computes.
  bool overlaps = false;
  std::function<void()> on_device_failed = {};  // by the group's thread
};

// Work that control has a group's thread do between its batches, a piece at a time.
class StageTask {
 public:
  virtual ~StageTask() = default;
  virtual bool step(device::Stream& stream) noexcept = 0;  // false: done
};

class GroupStage final : private runtime::CompletionSink {
 public:
  // `returns[w]` takes worker w's requests back, and their packets; sized so that it cannot be full. Everything
  // referred to outlives the stage. Errors: those of make_stream and RequestRing::create.
  static Result<std::unique_ptr<GroupStage>> create(std::string name,
                                                    std::unique_ptr<runtime::Group> group,
                                                    device::Device& device, const Clock& clock,
                                                    std::span<ReturnRing* const> returns,
                                                    const GroupStageOptions& options);
  ~GroupStage() override;  // stop()

  const std::string& name() const noexcept { return name_; }
  runtime::Group& group() noexcept { return *group_; }
  const runtime::Group& group() const noexcept { return *group_; }
  device::Device& device() const noexcept { return *device_; }
  const telemetry::ExecutorCounters& counters() const noexcept { return counters_; }

  // A worker lends a request. There is room for all that workers can have: which of them may wait is
  // decided per tenant by the executor's queue, not by who fills a ring first.
  void push(request::Request* request) noexcept {
    CHECK(ring_->push(request));
    ring_->bell.ring();
  }
  // Requests waiting for the executor, about.
  uint32_t num_waiting() const noexcept {
    return static_cast<uint32_t>(counters_.queued.read()) + ring_->size();
  }

  uint32_t num_executing() const noexcept { return executor_->num_executing(); }

  // The device has failed: every request is refused, and will be.
  bool device_failed() const noexcept { return counters_.device_errors.read() > 0; }
  // Whether the thread spins when it finds nothing, or sleeps after a while. Any thread.
  void set_busy(bool busy) noexcept { busy_.store(busy, std::memory_order_relaxed); }
  bool busy() const noexcept { return busy_.load(std::memory_order_relaxed); }

  // Has the group's thread run a task and waits for its end; calls `meanwhile` now and then.
  // REQUIRES: started, and one caller at a time.
  void perform(StageTask& task, const std::function<void()>& meanwhile);

  // Whether its batches are laid out by a planner: not those of a group that generates.
  bool has_planner() const noexcept { return planned_ != nullptr; }
  // How the next batches are laid out. Any thread. REQUIRES: has_planner(); made for plan_limits().
  void set_planner(std::unique_ptr<plan::Planner> planner) noexcept {
    planned_->set_planner(std::move(planner));
  }
  plan::PlanLimits plan_limits() const noexcept { return planned_->plan_limits(); }

  // One turn: takes what has come, completes and begins at most one batch, and does one piece of a task; where there
  // was nothing to do, makes the stream ready for one form of small batches. Returns how much it did.
  size_t poll() noexcept;

  void start();  // makes the thread
  // Ends it when the batches that run are done. What waits is not computed: REQUIRES that nobody waits
  // for its answers, because nothing is in flight or the workers have stopped.
  void stop();
  // Whether stop() was called. Any thread.
  bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

 private:
  GroupStage() = default;
  void run() noexcept;
  void rest(Idle& idle) noexcept;
  void count(const runtime::BatchFigures& figures) noexcept;
  void finish_batches() noexcept;
  size_t run_task() noexcept;
  size_t make_ready() noexcept;
  void count_graphs() noexcept;
  void complete(std::span<request::Request* const> requests) noexcept override;
  void release_packets(std::span<request::Request* const> requests) noexcept override;

  std::string name_;
  device::Device* device_ = nullptr;
  const Clock* clock_ = nullptr;
  std::unique_ptr<RequestRing> ring_;  // the stream rings its bell
  std::unique_ptr<runtime::Group> group_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<runtime::RequestExecutor> executor_;
  runtime::GroupExecutor* planned_ = nullptr;  // the same; null: it generates
  std::vector<ReturnRing*> returns_;
  GroupStageOptions options_;
  telemetry::ExecutorCounters counters_;
  size_t next_form_ = 0;  // of the group's, that the stream has not been made ready for
  std::atomic<StageTask*> task_{nullptr};
  std::atomic<bool> busy_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace itif::pipeline
