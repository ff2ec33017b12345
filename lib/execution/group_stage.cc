#include "execution/group_stage.h"

#include <pthread.h>

#include <array>
#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/heap_reserve.h"
#include "base/log.h"

namespace itif::execution {
namespace {

constexpr std::chrono::milliseconds kTaskPoll{2};
constexpr uint64_t kRunningSleepNs = 100'000'000;  // the bell ends it earlier
constexpr uint64_t kDevicePollNs = 10'000;         // for devices that do not ring the bell
// Heap for the small allocations of oneDNN and of results. While BERT-base was loaded, BERT-tiny's
// p99 was 3.8 to 5.8 ms without this reserve, and 2.7 to 2.9 ms with it.
constexpr size_t kReservedHeapBytes = 4 << 20;

}  // namespace

Result<std::unique_ptr<GroupStage>> GroupStage::create(
    std::string name, std::unique_ptr<runtime::Group> group, device::Device& device,
    const Clock& clock, std::span<pipeline::ReturnRing* const> returns,
    const GroupStageOptions& options) {
  std::unique_ptr<GroupStage> stage(new GroupStage);
  stage->name_ = std::move(name);
  stage->group_ = std::move(group);
  stage->options_ = options;
  stage->device_ = &device;
  stage->clock_ = &clock;
  stage->set_busy(options.idle.busy);
  stage->returns_.assign(returns.begin(), returns.end());
  std::vector<uint32_t> lendable;
  for (const pipeline::ReturnRing* ring : returns) lendable.push_back(ring->capacity());
  static std::atomic<unsigned> serial{0};
  ITIF_ASSIGN(stage->inbox_, pipeline::GroupInbox::create("itif_group_" + std::to_string(serial++),
                                                          lendable, stage->counters_));
  ITIF_ASSIGN(auto stream, stage->make_stream(options.share, !options.sharing_workers.empty()));
  stage->use_stream(std::move(stream));
  ITIF_ASSIGN(stage->executor_,
              stage->group_->make_executor(*stage->stream_, clock, options.executor));
  stage->count_cache();
  return stage;
}

Result<std::unique_ptr<device::Stream>> GroupStage::make_stream(const device::Share& share,
                                                                bool shares_cpus) {
  return device_->make_stream(group_->stream_limits(),
                              {.share = share,
                               .is_async = options_.overlaps,
                               .shares_cpus = shares_cpus,
                               .clock = clock_,
                               .on_done = [bell = &inbox_->bell()] { bell->ring(); },
                               .is_awaited = [inbox = inbox_.get()] { return !inbox->empty(); }});
}

GroupStage::~GroupStage() {
  stop();
}

void GroupStage::start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "itif-group");
    stream_->attach_thread();  // before the device starts its own threads: they inherit the CPUs
    pipeline::use_precise_sleeps();
    const HeapReserve reserve(kReservedHeapBytes);
    run();
  });
}

void GroupStage::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  end_thread();
}

void GroupStage::end_thread() {
  leaves_loop_.store(true, std::memory_order_release);
  inbox_->bell().ring();
  thread_.join();
}

Status GroupStage::set_scheduler(std::string_view scheduler) {
  class SetScheduler final : public StageTask {
   public:
    SetScheduler(runtime::RequestExecutor& executor, std::string_view scheduler)
        : executor_(executor), scheduler_(scheduler) {}
    bool step(device::Stream&) noexcept override {
      status = executor_.set_scheduler(scheduler_);
      return false;
    }
    Status status;

   private:
    runtime::RequestExecutor& executor_;
    const std::string_view scheduler_;
  };
  SetScheduler task(*executor_, scheduler);
  perform(task, {});
  return task.status;
}

// Starts a new thread, because the host's compute pool belongs to the thread that started it, and
// keeps the CPUs that it started on.
Status GroupStage::change_cpus(const std::vector<unsigned>& cpus,
                               std::vector<const telemetry::WorkerCounters*> sharing_workers) {
  CHECK(thread_.joinable());
  ITIF_ASSIGN(auto stream, make_stream({.cpus = cpus}, !sharing_workers.empty()));
  end_thread();
  executor_->use_stream(*stream);
  {
    const std::lock_guard lock(share_mutex_);
    options_.share.cpus = cpus;
    stream->set_percent(options_.share.percent);
    use_stream(std::move(stream));
  }
  options_.sharing_workers = std::move(sharing_workers);
  spin_choice_ = {};
  next_bucket_ = 0;  // graphs belong to their stream
  leaves_loop_.store(false, std::memory_order_release);
  start();
  return {};
}

void GroupStage::run() noexcept {
  pipeline::Idle idle(options_.idle);
  while (!leaves_loop_.load(std::memory_order_acquire)) {
    if (poll() > 0)
      idle.found_work();
    else
      rest(idle);
  }
  finish_batches();
  task_.store(nullptr, std::memory_order_release);
}

// While batches run, the thread sleeps until a request or the device rings the bell. Devices that
// do not ring it are polled.
void GroupStage::rest(pipeline::Idle& idle) noexcept {
  const auto ready = [this] {
    return !inbox_->empty() || executor_->has_results() || executor_->has_read_packets() ||
           task_.load(std::memory_order_acquire) != nullptr ||
           leaves_loop_.load(std::memory_order_acquire);
  };
  idle.set_busy(busy());
  if (busy() || executor_->num_executing() == 0) return idle.found_nothing(inbox_->bell(), ready);
  uint64_t sleep_ns = stream_->calls_on_done() ? kRunningSleepNs : kDevicePollNs;
  if (const uint64_t next_ns = executor_->next_step_ns()) {
    const uint64_t now_ns = clock_->now_ns();
    if (next_ns <= now_ns) return;
    sleep_ns = std::min(sleep_ns, next_ns - now_ns);
  }
  inbox_->bell().wait(sleep_ns, ready);
}

void GroupStage::perform(StageTask& task, const std::function<void()>& meanwhile) {
  CHECK(thread_.joinable());
  task_.store(&task, std::memory_order_release);
  inbox_->bell().ring();
  while (task_.load(std::memory_order_acquire) != nullptr) {
    std::this_thread::sleep_for(kTaskPoll);
    if (meanwhile) meanwhile();
  }
}

size_t GroupStage::run_task() noexcept {
  StageTask* task = task_.load(std::memory_order_acquire);
  if (task == nullptr) return 0;
  finish_batches();  // the task has the device to itself
  if (!task->step(*stream_)) task_.store(nullptr, std::memory_order_release);
  return 1;
}

void GroupStage::finish_batches() noexcept {
  runtime::BatchFigures figures;
  do {
    executor_->finish(*this, figures);
    count(figures);
  } while (figures.num_tokens > 0);
}

size_t GroupStage::take_requests() noexcept {
  std::array<request::Request*, 64> arrived;
  size_t taken = 0;
  uint64_t start_ns = 0;
  // Takes at most kMaxIntake requests, as submit() requires, so that a steady stream of requests
  // cannot keep a batch from starting.
  constexpr size_t kMost = runtime::RequestExecutor::kMaxIntake;
  while (taken < kMost) {
    const unsigned count =
        inbox_->pop(arrived.data(), std::min<size_t>(arrived.size(), kMost - taken));
    if (count == 0) break;
    if (taken == 0 && options_.executor.stamps_stages) start_ns = clock_->now_ns();
    for (unsigned i = 0; i < count; ++i) {
      arrived[i]->free_ns = arrived[i]->verified_ns < free_ns_ ? free_ns_ : 0;
      executor_->submit(arrived[i]);
    }
    taken += count;
  }
  if (start_ns != 0) counters_.intake_ns.add(clock_->now_ns() - start_ns);
  return taken;
}

size_t GroupStage::poll() noexcept {
  const size_t taken = take_requests();
  choose_waiting();
  runtime::BatchFigures figures;
  const size_t completed = executor_->step(*this, figures);
  count(figures);
  const size_t tasks = run_task();
  note_free(tasks > 0 || (figures.num_tokens > 0 && !options_.overlaps));
  // A generation step may complete no request, so its tokens count as work too.
  const size_t done = taken + completed + figures.num_tokens + tasks;
  return done > 0 ? done : warm_up();
}

// While requests wait, reads the workers' counters once per window of SpinChoice, and sets how the
// compute pool waits.
void GroupStage::choose_waiting() noexcept {
  if (options_.sharing_workers.empty() || executor_->num_queued() == 0) return;
  const uint64_t now_ns = clock_->now_ns();
  if (!spin_choice_.wants_count(now_ns)) return;
  uint64_t unserved = counters_.refused.read();
  for (const telemetry::WorkerCounters* worker : options_.sharing_workers)
    unserved += worker->total_unused();
  const bool before = spin_choice_.sleeps_early();
  spin_choice_.measure(now_ns, unserved);
  if (spin_choice_.sleeps_early() != before) stream_->sleep_early(!before);
}

// Captures one graph bucket per idle poll, so that a new request waits for at most one capture.
// Graphs belong to a slice of the device: after a change of the share they are captured again,
// unless the stream has kept them.
size_t GroupStage::warm_up() noexcept {
  if (share_changed_.load(std::memory_order_relaxed) &&
      share_changed_.exchange(false, std::memory_order_acquire))
    next_bucket_ = 0;
  if (next_bucket_ >= group_->num_buckets() || executor_->num_executing() > 0 || device_failed())
    return 0;
  Status made = group_->warm_up(*stream_, next_bucket_++);
  count_graphs();
  if (made) return 1;
  log::warning("group {}: CUDA graph warm-up failed; small batches launch kernel by kernel: {}",
               name_, made.error().message);
  next_bucket_ = group_->num_buckets();
  return 0;
}

void GroupStage::use_stream(std::unique_ptr<device::Stream> stream) noexcept {
  stream_ = std::move(stream);
  turn_taking_ = dynamic_cast<const device::TurnTaking*>(stream_.get());
  turn_wait_ns_ = 0;
}

// `has_computed`: the thread has just computed, so that it took no requests meanwhile.
void GroupStage::note_free(bool has_computed) noexcept {
  if (has_computed && options_.executor.stamps_stages) free_ns_ = clock_->now_ns();
}

void GroupStage::count_turns() noexcept {
  if (turn_taking_ == nullptr) return;
  const uint64_t now_ns = turn_taking_->turn_wait_ns();
  counters_.turn_wait_ns.add(now_ns - turn_wait_ns_.exchange(now_ns, std::memory_order_relaxed));
}

void GroupStage::count_cache() noexcept {
  const runtime::CacheFigures cache = executor_->cache();
  counters_.kv_blocks.set(cache.num_blocks);
  counters_.kv_blocks_used.set(cache.num_used);
  counters_.kv_blocks_reserved.set(cache.num_reserved);
}

void GroupStage::count_graphs() noexcept {
  const device::Stream::Graphs graphs = stream_->graphs();
  counters_.graphs.set(graphs.kept);
  counters_.graph_launches.set(graphs.launches);
  counters_.graph_failures.set(graphs.failures);
  counters_.refused_gemms.set(stream_->refused_gemms());
}

void GroupStage::count(const runtime::BatchFigures& figures) noexcept {
  if (figures.num_tokens > 0) {
    counters_.batches.add();
    counters_.requests.add(figures.num_requests);
    counters_.tokens.add(figures.num_tokens);
    counters_.rows.add(figures.num_rows);
    counters_.tenants.add(figures.num_tenants);
    counters_.busy_ns.add(figures.execute_ns);
    const uint64_t tokens = figures.num_tokens, execute_us = figures.execute_ns / 1000;
    counters_.tokens_squared.add(tokens * tokens);
    counters_.tokens_us.add(tokens * execute_us);
    counters_.us_squared.add(execute_us * execute_us);
    count_turns();
    const slice::Ask ask = executor_->share_ask();
    counters_.share_ask.set(static_cast<uint64_t>(ask));
    counters_.asks_for_more.add(ask == slice::Ask::kMore);
    counters_.last_batch_requests.set(figures.num_requests);
    counters_.last_batch_tokens.set(figures.num_tokens);
    count_graphs();
    if (!figures.planner.empty()) recent_batches_.add(figures);
  }
  counters_.refused.add(figures.num_refused);
  counters_.queued.set(executor_->num_queued());
  counters_.backlog_ns.set(executor_->backlog_ns());
  count_cache();
  if (figures.device_failed && !device_failed()) {
    counters_.device_errors.add();
    log::error("group {}: the device failed; its requests are refused with device_failed", name_);
    if (options_.on_device_failed) options_.on_device_failed();
  }
}

void GroupStage::complete(std::span<request::Request* const> requests) noexcept {
  for (request::Request* request : requests) {
    if (request->status == wire::StatusCode::kOk) {
      counters_.answered.add();
      counters_.latency_ns.add(request->done_ns - request->complete_ns);
      counters_.execute_ns.add(request->done_ns - request->chosen_ns);
      count_objective(request->done_ns - request->complete_ns, request->settings.slo_ns);
    }
    // The ring has room for every context of the worker, so a full ring is a bug.
    CHECK(returns_[request->worker]->push(request));
  }
  for (pipeline::ReturnRing* ring : returns_)
    if (!ring->empty()) ring->bell().ring();
}

void GroupStage::count_objective(uint64_t latency_ns, uint64_t slo_ns) noexcept {
  if (slo_ns == 0) return;
  const double ppm = 1e6 * static_cast<double>(latency_ns) / static_cast<double>(slo_ns);
  constexpr auto kMost = static_cast<double>(telemetry::ExecutorCounters::kMaxLatencyPpm);
  const auto counted = static_cast<uint64_t>(std::min(ppm, kMost));
  counters_.with_objective.add();
  counters_.latency_ppm.add(counted);
  counters_.latency_ppm_squared.add(counted * counted);
}

void GroupStage::running_since(uint64_t begin_ns) noexcept {
  counters_.running_since_ns.set(begin_ns);
}

GroupStage::Running GroupStage::running() const noexcept {
  Running running;
  const uint64_t since_ns = counters_.running_since_ns.read();
  if (since_ns == 0) return running;
  const uint64_t now_ns = clock_->now_ns();
  running.ns = now_ns - std::min(now_ns, since_ns);
  const std::lock_guard lock(share_mutex_);
  if (turn_taking_ == nullptr) return running;
  const uint64_t counted_ns = turn_wait_ns_.load(std::memory_order_relaxed);
  const uint64_t waited_ns = turn_taking_->turn_wait_ns();
  running.turn_wait_ns = std::min(running.ns, waited_ns - std::min(waited_ns, counted_ns));
  return running;
}

void GroupStage::busy_until(uint64_t end_ns) noexcept {
  counters_.busy_until_ns.set(end_ns);
}

// Rings no bell: the worker checks the ring at its next poll, and nobody waits for the packets.
void GroupStage::release_packets(std::span<request::Request* const> requests) noexcept {
  for (request::Request* request : requests)
    CHECK(returns_[request->worker]->push_packets(request));
}

}  // namespace itif::execution
