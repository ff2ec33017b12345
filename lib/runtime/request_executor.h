// What runs a group's requests: in by submit(), out by the sink, exactly once each, from step() alone.
//
// Owned by one thread (the group's). GroupExecutor runs batches that end with their forward pass,
// GenerationExecutor sequences that stay for many steps. Virtual at batch granularity.
#pragma once

#include <cstddef>
#include <cstdint>

#include "request/request.h"
#include "runtime/completion.h"

namespace itif::runtime {

// What one step did, for the counters of whoever drives the executor.
struct BatchFigures {
  uint32_t num_requests = 0;  // completed that were run
  uint32_t num_refused = 0;   // completed that were not
  uint32_t num_tokens = 0;    // computed; 0: nothing ran
  uint32_t num_rows = 0;      // that were computed: tokens and the plan's padding
  uint32_t num_tenants = 0;
  uint64_t execute_ns = 0;  // by the device's own time where it says it (Completion::device_ns)
  uint32_t kv_blocks_used = 0, kv_blocks_reserved = 0;  // GenerationExecutor, after the step
  bool device_failed = false;
};

class RequestExecutor {
 public:
  static constexpr uint32_t kMaxIntake = 1024;

  virtual ~RequestExecutor() = default;
  // REQUIRES: at most kMaxIntake calls between two of step(): what a flood costs the batch that waits.
  virtual void submit(request::Request* request) noexcept = 0;
  // Completes the oldest batch that runs, if it is done, releases packets of others that have been read, begins
  // another batch, if anything waits and it is time, and completes what was refused since the last step. Returns
  // the requests completed; `figures` are of the batch that was.
  virtual size_t step(CompletionSink& sink, BatchFigures& figures) noexcept = 0;
  // Waits for the oldest batch that runs and completes it, as step() does; without one, figures.num_tokens
  // is 0. Begins none.
  virtual size_t finish(CompletionSink& sink, BatchFigures& figures) noexcept = 0;
  // When step() is to be called though nothing was submitted; 0: need not be. What runs apart calls on its
  // own when it is done (StreamOptions::on_done).
  virtual uint64_t next_step_ns() const noexcept = 0;
  // Whether step() would complete a batch.
  virtual bool has_results() const noexcept = 0;
  // Whether step() would release packets.
  virtual bool has_read_packets() const noexcept = 0;

  virtual uint32_t num_queued() const noexcept = 0;
  // Requests that run now. Any thread.
  virtual uint32_t num_executing() const noexcept = 0;
  virtual bool device_failed() const noexcept = 0;
};

}  // namespace itif::runtime
