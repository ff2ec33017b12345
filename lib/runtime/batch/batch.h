// A batch of an encoder group: its requests and their places.
#pragma once

#include <cstdint>
#include <span>

#include "plan/plan.h"
#include "request/request.h"
#include "runtime/input_pool.h"

namespace itif::runtime {

// A request's place in a batch.
struct BatchRequest {
  // begin() reads the input; the outcome is complete after finish(). REQUIRES: num_tokens is set
  // (images: all positions of the model).
  request::Request* request = nullptr;
  const PreparedInput* prepared = nullptr;  // the request's; nullptr: none
  uint32_t num_rows = 0;  // rows in the batch, with padding after the tokens; 0: num_tokens
  // Adjacent segments of a tenant share a GEMM if they are in the same mini-batch of the plan.
  uint32_t mini_batch = 0;
  uint32_t call = 0;  // of the plan: index into Batch::calls
};

// Host memory that begin() and finish() use. The caller must not touch it, nor the outcome of its
// requests, between the two.
struct Batch {
  // In any order; in that of the calls, if there are any.
  std::span<const BatchRequest> segments;
  // The GEMM calls that the plan fixes. Empty: the group's GEMM scheduler chooses.
  std::span<const plan::Call> calls = {};
  // Set by begin(): rows computed beyond those of the segments, to fill the batch's graph bucket.
  uint32_t num_padding_rows = 0;
};

}  // namespace itif::runtime
