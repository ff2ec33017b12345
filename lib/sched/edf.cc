// Earliest deadline first over all tenants of the group: TCB's DEF (section 6.2.4). Requests
// without a deadline come last. Ties go to the earlier arrival.
//
// A row takes the earliest deadline among the requests that fit it. A request that does not fit in
// the rest of a batch comes first in the next one.
#include "sched/indexed_order.h"
#include "sched/ordered_policy.h"

namespace itif::sched {
namespace {

class Edf final : public IndexedOrder {
 public:
  using IndexedOrder::IndexedOrder;

 protected:
  void fill(IndexFill& fill) noexcept override {
    const auto earliest = [&] {
      // The first of a batch may have any length.
      return fill.index().earliest(fill.batch_is_empty() ? WaitingIndex::kAnyLength
                                                         : fill.rows().room());
    };
    while (fill.rows().requests_left() > 0) {
      request::Request* request = fill.in_time(earliest);
      if (request == nullptr) break;
      fill.take(request);
    }
    fill.finish([](const request::Request&) { return true; });
  }
};

}  // namespace

std::unique_ptr<IndexedOrder> make_edf_order(const PolicyOptions& options) {
  return std::make_unique<Edf>(options);
}

std::unique_ptr<BatchPolicy> make_edf(const PolicyOptions& options) {
  return make_ordered_policy(make_edf_order(options), options);
}

}  // namespace itif::sched
