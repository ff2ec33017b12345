// One request of equal length to each of several tenants of an encoder's group, in batches.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/batch/encoder_group.h"

namespace itif::bench {

class TenantLoad {
 public:
  // Requests of `num_tokens` tokens, in batches of `batch_requests` at most.
  TenantLoad(const std::vector<uint32_t>& slots, uint32_t num_tokens, uint32_t batch_requests);
  ~TenantLoad() { drop_results(); }
  TenantLoad(const TenantLoad&) = delete;
  TenantLoad& operator=(const TenantLoad&) = delete;

  // Runs all requests once. Errors: those of EncoderGroup::forward(); kInternal, a request that
  // ended with a status.
  Status run(runtime::EncoderGroup& group, device::Stream& stream);
  // Runs the next batch; the first follows the last. Errors: as run().
  Status run_next(runtime::EncoderGroup& group, device::Stream& stream);
  // The last result of a request.
  std::vector<float> logits(size_t request) const;
  size_t num_tokens() const { return requests_.size() * ids_.size(); }
  // REQUIRES: the batches have equally many requests.
  size_t num_batch_tokens() const;

 private:
  Status run(runtime::EncoderGroup& group, device::Stream& stream, size_t first, size_t count);
  void drop_results();

  const uint32_t batch_requests_;
  std::vector<uint32_t> ids_;
  BytePiece piece_;
  std::vector<request::Request> requests_;
  std::vector<runtime::BatchRequest> segments_;
  size_t next_ = 0;  // first request of the next batch
};

}  // namespace itif::bench
