#include "pipeline/group_stage.h"

#include <pthread.h>

#include <array>
#include <chrono>

#include "base/check.h"
#include "base/log.h"
#include "runtime/generation_executor.h"

namespace itif::pipeline {
namespace {

constexpr std::chrono::milliseconds kTaskPoll{2};

}  // namespace

Result<std::unique_ptr<GroupStage>> GroupStage::create(std::string name,
                                                       std::unique_ptr<runtime::Group> group,
                                                       device::Device& device, const Clock& clock,
                                                       std::span<RequestRing* const> returns,
                                                       const GroupStageOptions& options) {
  std::unique_ptr<GroupStage> stage(new GroupStage);
  stage->name_ = std::move(name);
  stage->group_ = std::move(group);
  stage->options_ = options;
  stage->set_busy(options.idle.busy);
  stage->returns_.assign(returns.begin(), returns.end());
  ITIF_ASSIGN(stage->stream_, device.make_stream(stage->group_->stream_limits(), options.cpus));
  if (stage->group_->decoder() != nullptr) {
    ITIF_ASSIGN(stage->executor_, runtime::GenerationExecutor::create(
                                      *stage->group_, *stage->stream_, clock, options.executor));
  } else {
    ITIF_ASSIGN(auto executor, runtime::GroupExecutor::create(*stage->group_, *stage->stream_,
                                                              clock, options.executor));
    stage->planned_ = executor.get();
    stage->executor_ = std::move(executor);
  }
  uint32_t lendable = 0;
  for (const RequestRing* ring : returns) lendable += ring->capacity();
  static std::atomic<unsigned> serial{0};
  ITIF_ASSIGN(stage->ring_,
              RequestRing::create("itif_group_" + std::to_string(serial++), lendable));
  return stage;
}

GroupStage::~GroupStage() {
  stop();
}

void GroupStage::start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "itif-group");
    stream_->attach_thread();  // before the device starts its own threads: they inherit the CPUs
    use_precise_sleeps();
    run();
  });
}

void GroupStage::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  ring_->bell.ring();
  thread_.join();
}

void GroupStage::run() noexcept {
  Idle idle(options_.idle);
  while (!stopping()) {
    if (poll() > 0) {
      idle.found_work();
      continue;
    }
    idle.set_busy(busy());
    idle.found_nothing(ring_->bell, [this] {
      return !ring_->empty() || task_.load(std::memory_order_acquire) != nullptr || stopping();
    });
  }
  task_.store(nullptr, std::memory_order_release);
}

void GroupStage::perform(StageTask& task, const std::function<void()>& meanwhile) {
  CHECK(thread_.joinable());
  task_.store(&task, std::memory_order_release);
  ring_->bell.ring();
  while (task_.load(std::memory_order_acquire) != nullptr) {
    std::this_thread::sleep_for(kTaskPoll);
    if (meanwhile) meanwhile();
  }
}

size_t GroupStage::run_task() noexcept {
  StageTask* task = task_.load(std::memory_order_acquire);
  if (task == nullptr) return 0;
  if (!task->step(*stream_)) task_.store(nullptr, std::memory_order_release);
  return 1;
}

size_t GroupStage::poll() noexcept {
  std::array<request::Request*, 64> arrived;
  size_t taken = 0;
  // Bounded: requests that arrive without end must not keep a batch from starting.
  while (taken < runtime::RequestExecutor::kMaxIntake) {
    const unsigned count = ring_->pop(arrived.data(), arrived.size());
    if (count == 0) break;
    for (unsigned i = 0; i < count; ++i) executor_->submit(arrived[i]);
    taken += count;
  }
  runtime::BatchFigures figures;
  const bool had_failed = executor_->device_failed();
  const size_t completed = executor_->step(*this, figures);
  if (figures.num_tokens > 0) {
    counters_.batches.add();
    counters_.requests.add(figures.num_requests);
    counters_.tokens.add(figures.num_tokens);
    counters_.rows.add(figures.num_rows);
    counters_.tenants.add(figures.num_tenants);
    counters_.busy_ns.add(figures.execute_ns);
    counters_.last_batch_requests.set(figures.num_requests);
    counters_.last_batch_tokens.set(figures.num_tokens);
  }
  counters_.refused.add(completed - std::min<size_t>(completed, figures.num_requests));
  counters_.queued.set(executor_->num_queued());
  counters_.kv_blocks_used.set(figures.kv_blocks_used);
  counters_.kv_blocks_reserved.set(figures.kv_blocks_reserved);
  if (figures.device_failed && !had_failed) {
    counters_.device_errors.add();
    log::error("group {}: the device failed; its requests are refused with device_failed", name_);
  }
  // Of sequences that go on, nothing is completed.
  return taken + completed + figures.num_tokens + run_task();
}

void GroupStage::complete(std::span<request::Request* const> requests) noexcept {
  for (request::Request* request : requests) {
    // Sized for every context of the worker, so a full ring is a defect.
    CHECK(returns_[request->worker]->push(request));
  }
  for (RequestRing* ring : returns_)
    if (!ring->empty()) ring->bell.ring();
}

}  // namespace itif::pipeline
