// Chooses a planner for each batch: plans it with packed, turbo, itif and joint, predicts the time
// of each plan from the group's own tables, and takes the shortest. packed wins ties.
//
// No planner is best for every batch. Padding pays if one saved GEMM call costs as much as the
// padding rows (a GPU with many short requests). Otherwise it takes up to half of a batch's time.
#include <array>

#include "base/check.h"
#include "plan/make_planner.h"
#include "plan/planner_kind.h"

namespace itif::plan {
namespace {

constexpr std::array<std::string_view, Plan::kMaxOffers> kOffering = {"packed", "turbo", "itif",
                                                                      "joint"};

class Auto final : public Planner {
 public:
  explicit Auto(const PlannerOptions& options) : pricer_(options.pricer) {
    for (size_t i = 0; i < kOffering.size(); ++i) {
      auto planner = make_planner(kOffering[i], options);
      CHECK(planner);  // make_planner() has checked the same options for auto
      planners_[i] = std::move(*planner);
    }
    scratch_.reserve(options.limits.max_requests);
  }

  void plan(std::span<const Item> items, Plan& plan) noexcept override {
    std::array<Offer, kOffering.size()> offers;
    uint32_t chosen = 0;
    for (uint32_t i = 0; i < kOffering.size(); ++i) {
      planners_[i]->plan(items, scratch_);
      offers[i] = {kOffering[i], pricer_->price_ns(scratch_)};
      if (i > 0 && offers[i].price_ns >= offers[chosen].price_ns) continue;
      chosen = i;
      std::swap(plan, scratch_);
    }
    plan.offers.assign(offers.begin(), offers.end());
    plan.chosen_offer = chosen;
  }

 private:
  const std::shared_ptr<PlanPricer> pricer_;
  std::array<std::unique_ptr<Planner>, kOffering.size()> planners_;
  Plan scratch_;
};

}  // namespace

PlannerKind auto_planner() {
  return {.make = make_planner_of<Auto>, .needs_tables = true, .needs_pricer = true};
}

}  // namespace itif::plan
