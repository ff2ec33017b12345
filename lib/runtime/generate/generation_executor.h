// The executor of decoder groups: decodes requests of all tenants token by token, with
// continuous batching.
//
// Between two steps, finished sequences leave and waiting ones enter; none waits for the longest of
// a batch. Each step: admit → encode the sequences that entered → one token for every live beam of
// every sequence → search → complete the finished sequences.
//
// With Joining::kBatches, as without iteration-level scheduling, a batch is decoded to its end
// before the next one begins. Sequences of the next batch enter meanwhile, as far as there is room,
// and their sources are encoded with the running batch's steps.
//
// Before it enters, a sequence reserves its worst case of K/V blocks and of step rows. If too
// little is left, it waits ahead of those that the policy selected later; if it could never fit, it
// is refused with a status. A running sequence therefore never finds the cache full. Cleaning
// decides when an ended sequence gives its memory back (kv_holds.h).
//
// A step needs the tokens of the previous step, so at most one runs. On an asynchronous stream,
// requests are taken in and tokenised while a step runs, and ended sequences are turned into
// answers during the next step.
//
// Owned by one thread (see RequestExecutor).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "runtime/admission.h"
#include "runtime/generate/beam_search.h"
#include "runtime/generate/decoder_group.h"
#include "runtime/generate/kv_blocks.h"
#include "runtime/generate/kv_holds.h"
#include "runtime/generate/step_layout.h"
#include "runtime/plan_items.h"
#include "runtime/replaceable_planner.h"
#include "runtime/request_executor.h"
#include "sched/batch_policy.h"

namespace itif::runtime {

class GenerationExecutor final : public RequestExecutor, private sched::Capacity {
 public:
  // `group`, `stream` and `clock` outlive the executor. Errors: kInvalidArgument (batch
  // policy's name).
  static Result<std::unique_ptr<GenerationExecutor>> create(DecoderGroup& group,
                                                            device::Stream& stream,
                                                            const Clock& clock,
                                                            const ExecutorOptions& options);

  void submit(request::Request* request) noexcept override;
  size_t step(CompletionSink& sink, BatchFigures& figures) noexcept override;
  size_t finish(CompletionSink& sink, BatchFigures& figures) noexcept override;
  uint64_t next_step_ns() const noexcept override { return 0; }
  bool has_results() const noexcept override { return in_flight_ && stream_->is_done(event_); }
  bool has_read_packets() const noexcept override {
    return !encoded_.empty() && stream_->inputs_read(event_);
  }
  // REQUIRES: finish() was called, so that no step runs.
  ~GenerationExecutor() override { CHECK(!in_flight_); }
  void use_stream(device::Stream& stream) noexcept override {
    CHECK(!in_flight_);
    stream_ = &stream;
  }
  Status supports_every_planner() const override;
  // Planners lay out sources: those that need no cost tables, because a decoder's tables serve
  // none. Steps have one layout, that of packed.
  Status set_planner(std::string_view name, const device::DeviceInfo& device,
                     const std::shared_ptr<const plan::CostTables>& tables) override;
  CacheFigures cache() const noexcept override {
    return {.num_blocks = blocks_.num_blocks(),
            .num_used = blocks_.num_used(),
            .num_reserved = blocks_.num_reserved()};
  }
  uint32_t num_queued() const noexcept override { return policy_->num_waiting(); }
  uint64_t backlog_ns() const noexcept override {
    return static_cast<uint64_t>(pace_ns_ * num_queued());
  }
  uint32_t num_executing() const noexcept override {
    return num_executing_.load(std::memory_order_relaxed);
  }
  bool device_failed() const noexcept override { return admission_.device_failed(); }
  Status set_scheduler(std::string_view scheduler) override;
  const KvBlocks& blocks() const noexcept { return blocks_; }

 private:
  GenerationExecutor(DecoderGroup& group, device::Stream& stream, const Clock& clock,
                     const ExecutorOptions& options, std::unique_ptr<sched::BatchPolicy> policy,
                     std::unique_ptr<plan::Planner> planner);
  // Sequences that have entered.
  struct Entered {
    std::vector<std::unique_ptr<Sequence>> sequences;  // by slot of their tenants
    uint32_t num_beams = 0;                            // reserved
  };
  uint32_t blocks_needed(const request::Request& request,
                         const model::GenerationConfig& config) const noexcept;
  void admit(const plan::Planner& planner, uint64_t now_ns) noexcept;
  // Reserves the beams and K/V blocks of the request's sequence, and rows for its source.
  bool reserve(const request::Request& request) noexcept override;
  // Gives back what reserve() has reserved for the request.
  void unreserve(const request::Request& request) noexcept;
  // REQUIRES: reserve() has returned true.
  void enter(request::Request* request, uint64_t now_ns) noexcept;
  void encode_entered(plan::Planner& planner) noexcept;
  size_t begin_step(CompletionSink& sink) noexcept;  // returns the number of refused requests
  void end_step(CompletionSink& sink, BatchFigures& figures) noexcept;
  void choose_joined() noexcept;
  void count_executing() noexcept;
  std::unique_ptr<Sequence> leave(Entered& from, size_t index) noexcept;
  void advance() noexcept;
  size_t answer_ended(CompletionSink& sink) noexcept;
  void answer(const Sequence& sequence) noexcept;
  void expire(Entered& entered, uint64_t now_ns) noexcept;
  void fail_running(const Refusal& why) noexcept;
  void fail_all() noexcept;
  void release_packets(CompletionSink& sink) noexcept;
  void learn_pace(uint64_t start_ns) noexcept;
  uint64_t stamp() const noexcept { return options_.stamps_stages ? clock_.now_ns() : 0; }
  double expected_wait_ns(uint32_t slot, const model::GenerationConfig& config) const noexcept;

  DecoderGroup& group_;
  device::Stream* stream_;
  const Clock& clock_;
  const ExecutorOptions options_;
  const uint32_t max_beams_;
  std::unique_ptr<sched::BatchPolicy> policy_;
  Admission admission_;
  KvBlocks blocks_;
  KvHolds holds_;
  sched::Choice choice_;
  std::vector<std::unique_ptr<Sequence>> spare_;  // unused; they keep their allocations
  std::vector<std::unique_ptr<Sequence>> ended_;  // ended in the last step, not answered yet
  Entered running_, next_;                        // next_: of the next batch (Joining::kBatches)
  Entered* joined_ = &running_;                   // by the sequences that enter with this step
  uint32_t source_rows_ = 0;                      // of these
  StepLayout layout_;
  ReplaceablePlanner planner_;      // of sources
  std::vector<Sequence*> entered_;  // whose sources the step encodes
  PlanItems items_;                 // one per entered sequence
  plan::Plan plan_;                 // of items_
  std::vector<Candidate> candidates_;
  std::vector<float> log_probabilities_;  // [max_beams, kMaxTopTokens]
  std::vector<int32_t> tokens_;
  std::vector<request::Request*> answered_;  // of ended_
  bool in_flight_ = false;                   // a step runs
  device::Stream::Event event_ = 0;          // end of the step
  uint64_t begin_ns_ = 0;
  BatchFigures figures_;  // figures known when the step begins
  // Requests whose sources the step encodes, until their packets are released.
  std::vector<request::Request*> encoded_;
  // Recent busy time per sequence that leaves (decaying mean); 0: none has left yet.
  double pace_ns_ = 0;
  uint64_t last_step_ns_ = 0;  // start of the last step; 0: nothing ran
  double busy_ns_ = 0;         // busy time since a sequence last left
  uint32_t num_left_ = 0;      // sequences that left in the last step
  std::atomic<uint32_t> num_executing_{0};
};

}  // namespace itif::runtime
