// Bounds the tokens of a batch so that tenants meet their latency objectives. A strategy adapts the
// bound after each batch:
//
// - aimd: as in Clipper, but the bound grows in proportion (aimd.cc).
// - slab: in proportion to the headroom, GSLICE's self-learning adaptive batching.
// - fixed: the bound stays at the group's own limit.
//
// A request that arrives just after a launch waits for that batch and runs in the next one. Two
// batches must therefore fit in the tightest objective; a fifth of it is left for everything else.
// A batch thus aims at two fifths of the objective. Without an objective only the group's own limit
// applies.
//
// The time of a batch is unknown at first, and a batch of the group's limit may take many times the
// objective. So the first batch with an objective has one request, and the second as many tokens as
// the first one's time allows. While no tenant with an objective sends requests, the bound neither
// applies nor changes.
//
// Owned by the executor's thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "slice/ask.h"

namespace itif::sched {

// In the order of kBatchControlNames.
enum class BatchControlKind : uint8_t { kAimd, kSlab, kFixed };
inline constexpr std::array<std::string_view, 3> kBatchControlNames = {"aimd", "slab", "fixed"};

// Errors: kInvalidArgument: an unknown name (lists the names).
Result<BatchControlKind> parse_batch_control(std::string_view name);

// A batch that ran.
struct BatchRun {
  uint32_t num_tokens = 0;
  uint64_t execute_ns = 0;
  uint64_t slo_ns = 0;  // Choice::slo_ns
  uint32_t num_requests = 1;
};

class BatchControl {
 public:
  // Batches in a row after which a group asks for another share. Source: GSLICE, section 3.3.1.
  static constexpr uint32_t kNumInRow = 5;

  explicit BatchControl(uint32_t max_tokens) : max_tokens_(max_tokens), tokens_(max_tokens) {}
  virtual ~BatchControl() = default;

  // Returns the next batch's bound under the objective `slo_ns` (0: none).
  uint32_t tokens(uint64_t slo_ns) noexcept;
  // Adapts the bound to a batch that ran under that objective.
  void ran(const BatchRun& run) noexcept;

  // Returns kMore after kNumInRow batches in a row that exceeded their aim and could not have been
  // smaller: they had one request, or the strategy does not lower the bound. Returns kLess after as
  // many batches below their aim that the bound did not limit, or whose bound was the group's.
  slice::Ask ask() const noexcept;

 protected:
  // Returns the bound after a batch whose aim was `target_ns`. The caller keeps it between 1 and
  // the group's limit.
  virtual double adapted(const BatchRun& run, double target_ns) const noexcept = 0;
  // The present bound.
  uint32_t bound() const noexcept { return tokens_; }
  // Returns true if the batch took at least 7/8 of the bound: a larger bound would have admitted
  // more requests.
  bool is_full(const BatchRun& run) const noexcept {
    return run.num_tokens >= tokens_ - tokens_ / 8;
  }
  // Returns true if the batch is full, or if another request of its mean length would not fit. The
  // latter is for small bounds: fewer than seven requests of one length rarely fill 7/8 of a bound.
  bool has_no_room(const BatchRun& run) const noexcept {
    const uint32_t mean_tokens = run.num_tokens / std::max(1u, run.num_requests);
    return is_full(run) || run.num_tokens + mean_tokens > tokens_;
  }

  // False: the bound never changes.
  virtual bool adapts() const noexcept { return true; }

 private:
  uint32_t max_tokens_;
  uint32_t tokens_;
  bool is_first_ = true;     // no batch has run under an objective
  uint32_t num_misses_ = 0;  // batches above their aim, in a row
  uint32_t num_slacks_ = 0;  // batches below their aim, in a row
};

std::unique_ptr<BatchControl> make_batch_control(BatchControlKind kind, uint32_t max_tokens);

// lib/sched/<name>.cc
std::unique_ptr<BatchControl> make_aimd(uint32_t max_tokens);
std::unique_ptr<BatchControl> make_slab(uint32_t max_tokens);
std::unique_ptr<BatchControl> make_fixed(uint32_t max_tokens);

}  // namespace itif::sched
