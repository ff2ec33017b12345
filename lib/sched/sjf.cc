// Shortest job first over all tenants of the group, by length in tokens. Ties go to the earlier
// deadline, then to the earlier arrival. Long requests wait as long as shorter ones keep coming.
// TCB compares its DAS with it (section 6.2.4).
#include "sched/indexed_order.h"
#include "sched/ordered_policy.h"

namespace itif::sched {
namespace {

class Sjf final : public IndexedOrder {
 public:
  using IndexedOrder::IndexedOrder;

 protected:
  void fill(IndexFill& fill) noexcept override {
    while (request::Request* shortest = fill.in_time([&] { return fill.index().shortest(); })) {
      if (!fill.rows().makes_room(shortest->num_tokens)) break;
      fill.take(shortest);
    }
    fill.finish([](const request::Request&) { return true; });
  }
};

}  // namespace

std::unique_ptr<IndexedOrder> make_sjf_order(const PolicyOptions& options) {
  return std::make_unique<Sjf>(options);
}

std::unique_ptr<BatchPolicy> make_sjf(const PolicyOptions& options) {
  return make_ordered_policy(make_sjf_order(options), options);
}

}  // namespace itif::sched
