// The thread that runs a group: takes requests from the group's inbox, executes them in batches,
// and returns them to their workers by the workers' rings.
//
// Threads: workers push to inbox(); the group's thread runs poll() and run(); control calls start()
// and stop(), and the Group's admit() and release().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "device/device.h"
#include "device/turn_taking.h"
#include "execution/recent_batches.h"
#include "execution/spin_choice.h"
#include "pipeline/group_inbox.h"
#include "pipeline/idle.h"
#include "pipeline/return_ring.h"
#include "runtime/completion.h"
#include "runtime/group.h"
#include "runtime/request_executor.h"
#include "telemetry/counters.h"

namespace itif::execution {

struct GroupStageOptions {
  runtime::ExecutorOptions executor = {};
  pipeline::IdlePolicy idle = {};
  device::Share share = {};  // of the device, until set_share() and change_cpus()
  // Launches run asynchronously: the group's thread prepares a batch while another computes.
  bool overlaps = false;
  // Workers whose threads need the pool's CPUs: SpinChoice then decides how the pool waits. Empty:
  // the pool has its CPUs to itself and spins. They outlive the stage.
  std::vector<const telemetry::WorkerCounters*> sharing_workers = {};
  std::function<void()> on_device_failed = {};  // called by the group's thread
};

// Work that a group's thread does for control between its batches, one step at a time.
class StageTask {
 public:
  virtual ~StageTask() = default;
  virtual bool step(device::Stream& stream) noexcept = 0;  // returns false when done
};

class GroupStage final : private runtime::CompletionSink {
 public:
  // `returns[w]` takes back worker w's requests and packets; its size must be such that it is never
  // full. All references outlive the stage. Errors: those of make_stream, GroupInbox::create and
  // Group::make_executor.
  static Result<std::unique_ptr<GroupStage>> create(std::string name,
                                                    std::unique_ptr<runtime::Group> group,
                                                    device::Device& device, const Clock& clock,
                                                    std::span<pipeline::ReturnRing* const> returns,
                                                    const GroupStageOptions& options);
  ~GroupStage() override;  // stop()

  const std::string& name() const noexcept { return name_; }
  runtime::Group& group() noexcept { return *group_; }
  const runtime::Group& group() const noexcept { return *group_; }
  device::Device& device() const noexcept { return *device_; }
  const telemetry::ExecutorCounters& counters() const noexcept { return counters_; }
  const RecentBatches& recent_batches() const noexcept { return recent_batches_; }
  // Returns true if the group's thread prepares a batch while another computes.
  bool overlaps() const noexcept { return options_.overlaps; }
  // Returns true if a batch has ended that poll() has not completed yet. Owner thread.
  bool has_results() const noexcept { return executor_->has_results(); }

  pipeline::GroupInbox& inbox() noexcept { return *inbox_; }
  const pipeline::GroupInbox& inbox() const noexcept { return *inbox_; }
  uint32_t num_executing() const noexcept { return executor_->num_executing(); }
  // The time so far of the oldest running batch. counters() includes it once the batch has ended.
  // Any thread.
  struct Running {
    uint64_t ns = 0;            // since it began
    uint64_t turn_wait_ns = 0;  // the part in which it waited for its turn
  };
  Running running() const noexcept;
  // RequestExecutor::next_step_ns(), for an owner that calls poll() itself.
  uint64_t next_step_ns() const noexcept { return executor_->next_step_ns(); }

  // Returns true once the device has failed; the group then refuses every request.
  bool device_failed() const noexcept { return counters_.device_errors.read() > 0; }
  // Makes the idle thread spin (true), or sleep after a while (false). Any thread.
  void set_busy(bool busy) noexcept { busy_.store(busy, std::memory_order_relaxed); }
  bool busy() const noexcept { return busy_.load(std::memory_order_relaxed); }

  // Makes the group's thread run a task and waits for its end; calls `meanwhile` periodically.
  // REQUIRES: started, and one caller at a time.
  void perform(StageTask& task, const std::function<void()>& meanwhile);

  // RequestExecutor::supports_every_planner(), and set_planner() on the group's device.
  Status supports_every_planner() const { return executor_->supports_every_planner(); }
  Status set_planner(std::string_view name, const std::shared_ptr<const plan::CostTables>& tables) {
    return executor_->set_planner(name, device_->info(), tables);
  }

  // Chooses later batches by another batch policy (sched/policy_spec.h), which takes over the
  // waiting requests. REQUIRES: started, and no task is performed. Errors: kInvalidArgument.
  Status set_scheduler(std::string_view scheduler);

  // Changes the group's part of the device's time (device::Share::percent), while batches run. Any
  // thread.
  void set_share(double percent) noexcept {
    const std::lock_guard lock(share_mutex_);
    options_.share.percent = percent;
    stream_->set_percent(percent);
    share_changed_.store(true, std::memory_order_release);
  }

  // The CPUs that the group computes on (device::Share::cpus). Control's job thread.
  const std::vector<unsigned>& cpus() const noexcept { return options_.share.cpus; }
  // Continues on other CPUs after the running batches; requests wait meanwhile. On error nothing
  // has changed. `sharing_workers`: as in the options. Control's job thread. REQUIRES: started.
  // Errors: those of make_stream.
  Status change_cpus(const std::vector<unsigned>& cpus,
                     std::vector<const telemetry::WorkerCounters*> sharing_workers);

  // Runs one iteration: takes new requests, completes and begins at most one batch, runs one step
  // of a task. If there was nothing to do, captures the CUDA graph of one bucket ahead of its first
  // use. Returns the amount of work done.
  size_t poll() noexcept;

  void start();  // starts the thread
  // Ends the thread after the running batches. Requests that wait are not executed. REQUIRES:
  // nobody waits for their answers, because nothing is in flight or the workers have stopped.
  void stop();
  // Returns true after stop() was called. Any thread.
  bool stopping() const noexcept { return stopping_.load(std::memory_order_acquire); }

 private:
  GroupStage() = default;
  Result<std::unique_ptr<device::Stream>> make_stream(const device::Share& share, bool shares_cpus);
  void end_thread();
  void run() noexcept;
  void rest(pipeline::Idle& idle) noexcept;
  void count(const runtime::BatchFigures& figures) noexcept;
  void choose_waiting() noexcept;
  void finish_batches() noexcept;
  size_t run_task() noexcept;
  size_t warm_up() noexcept;
  void use_stream(std::unique_ptr<device::Stream> stream) noexcept;
  size_t take_requests() noexcept;
  void note_free(bool has_computed) noexcept;
  void count_turns() noexcept;
  // Counts the latency of an answered request of a tenant with that objective; 0: none.
  void count_objective(uint64_t latency_ns, uint64_t slo_ns) noexcept;
  void count_cache() noexcept;
  void count_graphs() noexcept;
  void complete(std::span<request::Request* const> requests) noexcept override;
  void release_packets(std::span<request::Request* const> requests) noexcept override;
  void running_since(uint64_t begin_ns) noexcept override;
  void busy_until(uint64_t end_ns) noexcept override;

  std::string name_;
  device::Device* device_ = nullptr;
  const Clock* clock_ = nullptr;
  telemetry::ExecutorCounters counters_;
  std::unique_ptr<pipeline::GroupInbox> inbox_;  // stream_ rings its bell
  std::unique_ptr<runtime::Group> group_;
  std::unique_ptr<device::Stream> stream_;
  const device::TurnTaking* turn_taking_ = nullptr;  // of stream_; null: it takes no turns
  std::atomic<uint64_t> turn_wait_ns_{0};  // of stream_, when last counted; its thread writes it
  std::unique_ptr<runtime::RequestExecutor> executor_;
  std::vector<pipeline::ReturnRing*> returns_;
  // Guards options_.share and, where another thread sets or reads them, stream_ and turn_taking_.
  mutable std::mutex share_mutex_;
  GroupStageOptions options_;
  RecentBatches recent_batches_;
  uint64_t free_ns_ = 0;    // the end of the last work that kept the thread from taking requests
  size_t next_bucket_ = 0;  // the group's next graph bucket to capture ahead
  std::atomic<bool> share_changed_{false};
  SpinChoice spin_choice_;
  std::atomic<StageTask*> task_{nullptr};
  std::atomic<bool> busy_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> leaves_loop_{false};  // the thread is to end after the running batches
  std::thread thread_;
};

}  // namespace itif::execution
