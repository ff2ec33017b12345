// A batch of an encoder group: its requests, their rows and the GEMM calls.
#pragma once

#include <cstdint>
#include <span>

#include "plan/plan.h"
#include "request/request.h"
#include "runtime/input_pool.h"

namespace itif::runtime {

// A request in a batch.
struct BatchRequest {
  // begin() reads the input; the outcome is complete after finish(). REQUIRES: num_tokens is set
  // (images: all positions of the model).
  request::Request* request = nullptr;
  const PreparedInput* prepared = nullptr;  // the request's tokens or pixels; nullptr: read packets
  uint32_t num_rows = 0;  // rows in the batch, with padding after the tokens; 0: num_tokens
  // Adjacent segments of a tenant share a GEMM if they are in the same mini-batch of the plan.
  uint32_t mini_batch = 0;
  uint32_t call = 0;  // of the plan: index into Batch::calls
  // Adjacent segments with the same number share a matrix of attention scores. REQUIRES: all
  // segments of a batch have such a number, or none does.
  uint32_t score_matrix = plan::kOwnScores;
};

// Host memory that begin() and finish() use. The caller must not touch it, nor the outcome of its
// requests, between the two.
struct Batch {
  // In the order of `calls`; in any order if there are none.
  std::span<const BatchRequest> segments;
  // The GEMM calls that the plan fixes. Empty: the group's GEMM scheduler chooses.
  std::span<const plan::Call> calls = {};
  // Set by begin(): rows computed beyond those of the segments, to fill the batch's graph bucket.
  uint32_t num_padding_rows = 0;
};

// Calls f(segment, mini_batch, call) for each segment of a plan, in the order of its rows, with the
// indices of its mini-batch and call.
template <class F>
void for_each_segment(const plan::Plan& plan, const F& f) {
  for (uint32_t call = 0; call < plan.calls.size(); ++call) {
    const uint32_t first = plan.calls[call].first_mini_batch;
    for (uint32_t m = first; m < first + plan.calls[call].num_mini_batches; ++m) {
      const plan::MiniBatch& batch = plan.mini_batches[m];
      for (uint32_t i = 0; i < batch.num_segments; ++i)
        f(plan.segments[batch.first_segment + i], m, call);
    }
  }
}

}  // namespace itif::runtime
