// The policy das, TCB's DAS: fills a batch for high utility, but also with urgent requests of
// nearly as high utility, so that these meet their deadlines. das_rows.h has the algorithm.
#include "sched/das_rows.h"
#include "sched/ordered_policy.h"

namespace itif::sched {
namespace {

class Das final : public DasRows {
 public:
  using DasRows::DasRows;

 protected:
  void fill(IndexFill& fill) noexcept override {
    fill_rows(fill);
    fill.finish([](const request::Request&) { return true; });
    charge_shares(fill);
  }
};

}  // namespace

std::unique_ptr<IndexedOrder> make_das_order(const PolicyOptions& options) {
  return std::make_unique<Das>(options);
}

std::unique_ptr<BatchPolicy> make_das(const PolicyOptions& options) {
  return make_ordered_policy(make_das_order(options), options);
}

}  // namespace itif::sched
