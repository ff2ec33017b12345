// The executor of groups that generate: requests of all tenants decoded token by token, scheduled by step.
//
// A sequence that has finished leaves and one that waits enters between two steps; nobody waits for the
// longest of a batch. Each step of the group: admit → encode what entered → one token of every live beam
// of every sequence → search → those that are done are completed.
//
// A sequence reserves what it can need at most, in K/V blocks and in rows of the step, before it enters:
// one that finds too little waits in its place, one that could never fit is refused by name. A running one
// never finds the cache full.
//
// A step needs the tokens that the one before it found, so at most one runs. On a stream that runs apart
// requests come in and are tokenised while it does, and sequences that have ended are turned into answers
// while the next one does.
//
// Owned by one thread, as RequestExecutor says.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backbone/decoder.h"
#include "base/clock.h"
#include "runtime/beam_search.h"
#include "runtime/executor.h"
#include "runtime/group.h"
#include "runtime/kv_blocks.h"
#include "runtime/preparation.h"
#include "runtime/request_executor.h"
#include "runtime/step_layout.h"
#include "sched/group_queue.h"
#include "sched/scheduler.h"

namespace itif::runtime {

class GenerationExecutor final : public RequestExecutor {
 public:
  // `group`, `stream` and `clock` outlive the executor. REQUIRES: group.decoder(). Errors:
  // kInvalidArgument (scheduler's name).
  static Result<std::unique_ptr<GenerationExecutor>> create(Group& group, device::Stream& stream,
                                                            const Clock& clock,
                                                            const ExecutorOptions& options);

  void submit(request::Request* request) noexcept override;
  size_t step(CompletionSink& sink, BatchFigures& figures) noexcept override;
  size_t finish(CompletionSink& sink, BatchFigures& figures) noexcept override;
  uint64_t next_step_ns() const noexcept override { return 0; }
  bool has_results() const noexcept override { return in_flight_ && stream_.is_done(event_); }
  bool has_read_packets() const noexcept override {
    return !encoded_.empty() && stream_.inputs_read(event_);
  }
  // REQUIRES: no step runs: finish() was called.
  ~GenerationExecutor() override;
  uint32_t num_queued() const noexcept override {
    return queue_.num_requests() + static_cast<uint32_t>(waiting_.size() - next_waiting_);
  }
  uint32_t num_executing() const noexcept override {
    return num_executing_.load(std::memory_order_relaxed);
  }
  bool device_failed() const noexcept override { return device_failed_; }
  const KvBlocks& blocks() const noexcept { return blocks_; }

 private:
  GenerationExecutor(Group& group, device::Stream& stream, const Clock& clock,
                     const ExecutorOptions& options, std::unique_ptr<sched::Scheduler> scheduler);
  void refuse(request::Request* request, wire::StatusCode status, const char* detail) noexcept;
  void refuse(request::Request* request, const Refusal& why) noexcept {
    refuse(request, why.status, why.detail);
  }
  uint32_t blocks_needed(const request::Request& request,
                         const model::GenerationConfig& config) const noexcept;
  void admit(uint64_t now_ns) noexcept;
  bool enter(request::Request* request, uint64_t now_ns) noexcept;
  void encode_entered() noexcept;
  size_t begin_step(CompletionSink& sink) noexcept;  // returns what was refused
  void end_step(CompletionSink& sink, BatchFigures& figures) noexcept;
  std::unique_ptr<Sequence> leave(size_t index) noexcept;
  void advance() noexcept;
  size_t answer_ended(CompletionSink& sink, BatchFigures& figures) noexcept;
  void answer(const Sequence& sequence) noexcept;
  void expire_running(uint64_t now_ns) noexcept;
  void fail_running(wire::StatusCode status, const char* why) noexcept;
  void fail_all() noexcept;
  size_t complete(CompletionSink& sink) noexcept;
  void release_packets(CompletionSink& sink) noexcept;
  void learn_pace(uint64_t start_ns) noexcept;
  double expected_wait_ns(uint32_t slot, const model::GenerationConfig& config) const noexcept;

  Group& group_;
  device::Stream& stream_;
  const Clock& clock_;
  const ExecutorOptions options_;
  const uint32_t max_beams_;
  std::unique_ptr<sched::Scheduler> scheduler_;
  sched::GroupQueue queue_;
  Preparation preparation_;
  KvBlocks blocks_;
  std::vector<request::Request*>
      waiting_;  // chosen by the scheduler, not entered; from next_waiting_
  size_t next_waiting_ = 0;
  std::vector<std::unique_ptr<Sequence>> spare_;    // not running, with their memory
  std::vector<std::unique_ptr<Sequence>> running_;  // by slot
  std::vector<std::unique_ptr<Sequence>> ended_;    // in the last step; not answered
  uint32_t num_beams_ = 0;                          // reserved by those that run
  StepLayout layout_;
  std::vector<Candidate> candidates_;
  std::vector<float> log_probabilities_;  // [max_beams, kMaxTopTokens]
  std::vector<int32_t> tokens_;
  std::vector<request::Request*> done_;  // to be completed
  bool in_flight_ = false;               // a step
  device::Stream::Event event_ = 0;      // its end
  uint64_t begin_ns_ = 0;
  BatchFigures figures_;  // what is known of it when it begins
  // Whose sources it encodes, until their packets are released.
  std::vector<request::Request*> encoded_;
  // Of late: time in which one sequence leaves while others run; 0: none has yet.
  double pace_ns_ = 0;
  uint64_t last_step_ns_ = 0;  // its start; 0: nothing ran
  double busy_ns_ = 0;         // since a sequence has left
  uint32_t num_left_ = 0;      // in the last step
  bool device_failed_ = false;
  std::atomic<uint32_t> num_executing_{0};
};

}  // namespace itif::runtime
