// When a request reached each point of its way: a copy that outlives the Request, which is used
// again as soon as its answer has been queued to be sent.
#pragma once

#include <cstdint>

#include "request/request.h"

namespace itif::request {

// By the pipeline's Clock. The points are reached in this order; 0: not reached, or not stamped.
struct Times {
  uint64_t arrival_ns = 0;  // Request's points
  uint64_t complete_ns = 0;
  uint64_t verified_ns = 0;
  uint64_t free_ns = 0;
  uint64_t queued_ns = 0;
  uint64_t chosen_ns = 0;
  uint64_t planned_ns = 0;
  uint64_t launched_ns = 0;
  uint64_t done_ns = 0;
  uint64_t first_out_ns = 0;  // the worker begins to build the response's first datagram
  uint64_t last_out_ns = 0;   // the response's last datagram has been handed to the port
};

inline Times times_of(const Request& request) noexcept {
  return {.arrival_ns = request.arrival_ns,
          .complete_ns = request.complete_ns,
          .verified_ns = request.verified_ns,
          .free_ns = request.free_ns,
          .queued_ns = request.queued_ns,
          .chosen_ns = request.chosen_ns,
          .planned_ns = request.planned_ns,
          .launched_ns = request.launched_ns,
          .done_ns = request.done_ns};
}

}  // namespace itif::request
