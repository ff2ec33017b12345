// The executor of encoder groups: batch policy → planner → EncoderGroup::begin … finish, pass
// by pass → completion.
//
// Owned by one thread (the group's). submit() checks a request against its model, tokenises text
// and queues it. step() begins at most one batch. step() and finish(), never submit(), hand each
// request to the sink exactly once: with a result, or with a status that says why not. Requests
// stay their worker's (request.h); the executor only borrows them.
//
// On an asynchronous stream batches overlap: while one computes, requests arrive and are tokenised,
// and the next batch is chosen, planned and launched. The choice is made as late as possible,
// shortly before the running batch is expected to end: until then, arriving requests can still join
// the next batch or go first in it. On a synchronous stream a batch ends in the step that began it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "plan/planner.h"
#include "runtime/admission.h"
#include "runtime/batch/encoder_group.h"
#include "runtime/completion.h"
#include "runtime/cost/cost_estimate.h"
#include "runtime/cost/cost_floor.h"
#include "runtime/cost/cost_in_rows.h"
#include "runtime/plan_items.h"
#include "runtime/replaceable_planner.h"
#include "runtime/request_executor.h"
#include "sched/batch_policy.h"

namespace itif::runtime {

class GroupExecutor final : public RequestExecutor {
 public:
  // `group`, `stream` and `clock` outlive the executor. Lays batches out with packed until
  // set_planner(). Errors: kInvalidArgument (batch policy, limits).
  static Result<std::unique_ptr<GroupExecutor>> create(EncoderGroup& group, device::Stream& stream,
                                                       const Clock& clock,
                                                       const ExecutorOptions& options);

  void submit(request::Request* request) noexcept override;
  size_t step(CompletionSink& sink, BatchFigures& figures) noexcept override;
  size_t finish(CompletionSink& sink, BatchFigures& figures) noexcept override;
  uint64_t next_step_ns() const noexcept override;
  bool has_results() const noexcept override {
    return num_in_flight_ > 0 && stream_->is_done(oldest().event);
  }
  bool has_read_packets() const noexcept override;

  // REQUIRES: no batch runs: finish() was called until none was left.
  ~GroupExecutor() override;
  Status set_planner(std::string_view name, const device::DeviceInfo& device,
                     const std::shared_ptr<const plan::CostTables>& tables) override;
  // Any thread.
  ReplaceablePlanner& planner() noexcept { return planner_; }

  void use_stream(device::Stream& stream) noexcept override {
    CHECK(num_in_flight_ == 0);
    stream_ = &stream;
  }
  slice::Ask share_ask() const noexcept override { return policy_->share_ask(); }
  uint32_t num_queued() const noexcept override { return policy_->num_waiting(); }
  uint64_t backlog_ns() const noexcept override;
  uint64_t queued_tokens() const noexcept { return policy_->queue().num_tokens(); }
  // Requests of the batches that run now. Any thread.
  uint32_t num_executing() const noexcept override {
    return num_executing_.load(std::memory_order_relaxed);
  }
  bool device_failed() const noexcept override { return admission_.device_failed(); }
  Status set_scheduler(std::string_view scheduler) override;

 private:
  // A batch between its choice and its completion.
  struct Flight {
    plan::Plan plan;
    std::vector<request::Request*> ordered;  // in the plan's order
    std::vector<BatchRequest> segments;
    BatchFigures figures;
    uint32_t priced_tokens = 0;  // by which costs are learnt: with the padding of fixed rows
    uint64_t begin_ns = 0;
    uint64_t planned_ns = 0;
    uint64_t launched_ns = 0;  // of the pass that runs; 0: not stamped
    uint64_t expected_end_ns = 0;
    uint64_t slo_ns = 0;         // Choice::slo_ns
    bool left_some = false;      // other requests kept waiting when it was chosen
    size_t pass = 0;             // the plan's pass that runs
    bool holds_packets = false;  // that pass's packets are not released yet
    device::Stream::Event event = 0;
  };

  GroupExecutor(EncoderGroup& group, device::Stream& stream, const Clock& clock,
                const ExecutorOptions& options, std::unique_ptr<sched::BatchPolicy> policy,
                std::unique_ptr<plan::Planner> planner);
  // Resizes the pictures of the chosen batch.
  void resize_images(std::vector<request::Request*>& batch) noexcept;
  void choose_batch(const plan::Planner& planner, uint64_t now_ns) noexcept;
  bool may_begin(uint64_t now_ns) const noexcept;
  size_t begin(CompletionSink& sink) noexcept;  // returns the number of refused requests
  void launch_pass(Flight& flight) noexcept;
  void release_packets(CompletionSink& sink) noexcept;
  size_t finish_oldest(CompletionSink& sink, BatchFigures& figures) noexcept;
  uint64_t begun_ns(const Flight& flight, uint64_t device_ns) const noexcept;
  void learn(const Flight& flight) noexcept;
  uint64_t expected_end_ns() const noexcept;
  // Returns true if another batch may begin. A batch's passes are launched one by one, and the next
  // batch follows its last pass.
  bool has_room() const noexcept {
    return num_in_flight_ == 0 ||
           (num_in_flight_ < flights_.size() && oldest().pass + 1 == oldest().plan.passes.size());
  }
  Flight& oldest() noexcept { return flights_[first_]; }
  const Flight& oldest() const noexcept { return flights_[first_]; }
  // The i-th batch in flight, oldest first.
  Flight& in_flight(uint32_t i) noexcept { return flights_[(first_ + i) % flights_.size()]; }
  const Flight& in_flight(uint32_t i) const noexcept {
    return flights_[(first_ + i) % flights_.size()];
  }
  // The requests of the pass that runs.
  static std::span<request::Request* const> running_requests(const Flight& flight) noexcept {
    const plan::Pass& pass = flight.plan.passes[flight.pass];
    return std::span(flight.ordered).subspan(pass.first_segment, pass.num_segments);
  }
  void gather_adapters() noexcept;
  void plan_batch(plan::Planner& planner, Flight& flight) noexcept;
  void add_segment(Flight& flight, const plan::Segment& planned, uint32_t mini_batch,
                   uint32_t call) noexcept;
  void finish_pass(Flight& flight) noexcept;
  uint64_t stamp() const noexcept { return options_.stamps_stages ? clock_.now_ns() : 0; }
  double expected_wait_ns(uint32_t slot) const noexcept;
  double serving_ns(const sched::GroupQueue::Backlog& backlog) const noexcept;
  void learn_pace(const Flight& flight, uint64_t end_ns) noexcept;
  sched::BatchCosts batch_costs() const noexcept { return {cost_in_rows_, floor_in_rows_}; }

  EncoderGroup& group_;
  device::Stream* stream_;
  const Clock& clock_;
  ExecutorOptions options_;
  std::unique_ptr<sched::BatchPolicy> policy_;
  ReplaceablePlanner planner_;
  Admission admission_;
  sched::Choice choice_;
  PlanItems items_;
  std::array<Flight, EncoderGroup::kMaxInFlight> flights_;  // by flight index
  uint32_t first_ = 0;  // the oldest in flight; others follow it
  uint32_t num_in_flight_ = 0;
  uint64_t last_end_ns_ = 0;  // end of the last batch
  // Decaying maximum of the time from a batch's choice to its launch.
  uint64_t preparation_ns_ = 0;
  // Decaying maximum of how early batches ended, compared with their expected ends.
  uint64_t early_ns_ = 0;
  // Time per token of recent batches after which requests still waited. 0: the queue was empty
  // after the last batch.
  double pace_ns_ = 0;
  CostEstimate cost_;
  CostFloor floor_;
  CostInRows cost_in_rows_{cost_};
  CostInRows floor_in_rows_{floor_};
  uint64_t batch_number_ = 0;
  std::vector<uint64_t> last_batch_;  // by slot: number of the last batch with a request of it
  std::atomic<uint32_t> num_executing_{0};
};

}  // namespace itif::runtime
