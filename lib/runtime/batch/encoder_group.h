// A group whose requests end with one forward pass: encoders of texts and images. GroupExecutor
// (executor.h) runs its batches; make_encoder_group.h makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "backbone/fusion_mode.h"
#include "runtime/batch/batch.h"
#include "runtime/cost/pass_limits.h"
#include "runtime/cost/pass_weights.h"
#include "runtime/graph_buckets.h"
#include "runtime/group.h"

namespace itif::runtime {

struct EncoderGroupOptions {
  backbone::FusionMode fusion_mode = backbone::FusionMode::kFused;
};

class EncoderGroup : public Group {
 public:
  bool overlaps_on_host() const noexcept final { return true; }
  device::StreamLimits stream_limits() const noexcept override;

  // Maximum number of batches between begin() and finish(). The caller passes the same free
  // flight_index to both.
  static constexpr uint32_t kMaxInFlight = device::Stream::kMaxPending;

  // Lays a batch out and launches it after the batches that began before. Its results are complete
  // once the stream has executed these launches. Allocates only the results. REQUIRES: at most
  // options().max_requests segments and max_tokens tokens; always the same stream.
  virtual void begin(device::Stream& stream, Batch& batch, uint32_t flight_index) noexcept = 0;
  // Gives each request a result (malloc'ed, owned by the caller), or a status that concerns it
  // alone (malformed ids, too long, a kind that its model has no head for). `computed`: the
  // stream's status of the launches. If it says that the device had no memory for them, or that its
  // library refused them, every request gets the status of refusal_of(). Errors: a device fault;
  // every request then gets kDeviceFailed. REQUIRES: batches finish in the order of begin().
  virtual Status finish(Batch& batch, uint32_t flight_index, Status computed) noexcept = 0;

  virtual PassLimits pass_limits() const noexcept { return {}; }
  // Returns what prices of passes need to know of the weights; null: no GEMM is joined. Valid as
  // long as the group.
  virtual std::shared_ptr<const PassWeights> pass_weights() const { return nullptr; }
  // Returns the buckets that passes are padded to; empty: the device uses none.
  virtual GraphBuckets graph_buckets() const { return {}; }
  // Errors: kUnsupported, a planner whose segments share score matrices, which the group's fusion
  // mode does not have.
  Status check_planner(std::string_view planner) const;

  // Runs one batch from beginning to end.
  Status forward(device::Stream& stream, Batch& batch) noexcept {
    begin(stream, batch, 0);
    return finish(batch, 0, stream.synchronize());
  }

 protected:
  // Returns true if segments may share score matrices (BatchRequest::score_matrix).
  virtual bool can_share_scores() const noexcept { return true; }
};

}  // namespace itif::runtime
