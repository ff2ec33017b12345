#include "plan/plan.h"

namespace itif::plan {

void Plan::reserve(size_t max_requests) {
  segments.reserve(max_requests);
  mini_batches.reserve(max_requests);
  calls.reserve(max_requests);
  passes.reserve(max_requests);
  offers.reserve(kMaxOffers);
}

void Plan::clear() noexcept {
  segments.clear();
  mini_batches.clear();
  calls.clear();
  passes.clear();
  num_tokens = num_rows = 0;
  cost_ns = 0;
  has_fixed_calls = false;
  offers.clear();
  chosen_offer = 0;
}

}  // namespace itif::plan
