#include "workload/planned_batch.h"

#include <algorithm>

#include "plan/make_planner.h"
#include "plan/verify.h"

namespace itif::bench {

Result<PlannedBatch> make_planned_batch(std::string_view planner,
                                        const plan::PlannerOptions& options,
                                        std::span<const plan::Item> items, uint32_t vocab,
                                        const Encoder::Batch* images) {
  ITIF_ASSIGN(const auto made, plan::make_planner(planner, options));
  PlannedBatch planned;
  made->plan(items, planned.plan);
  ITIF_TRY(plan::verify(planned.plan, items, options.limits));
  for (const plan::Pass& pass : planned.plan.passes)
    planned.passes.push_back(Encoder::of_pass(planned.plan, pass, vocab, images));
  return planned;
}

Status forward(Encoder& encoder, const PlannedBatch& planned) {
  for (const Encoder::Batch& pass : planned.passes) ITIF_TRY(encoder.forward(pass));
  return {};
}

Result<std::vector<float>> last_states(Encoder& encoder, const PlannedBatch& planned) {
  const uint32_t hidden = encoder.hidden();
  std::vector<float> last(planned.plan.segments.size() * hidden);
  for (size_t p = 0; p < planned.passes.size(); ++p) {
    ITIF_ASSIGN(const std::vector<float> states, encoder.hidden_states(planned.passes[p]));
    const plan::Pass& pass = planned.plan.passes[p];
    for (uint32_t s = pass.first_segment; s < pass.first_segment + pass.num_segments; ++s) {
      const plan::Segment& segment = planned.plan.segments[s];
      const size_t row = segment.first_row + segment.num_tokens - 1;
      std::copy_n(states.begin() + static_cast<ptrdiff_t>(row * hidden), hidden,
                  last.begin() + ptrdiff_t{segment.item} * hidden);
    }
  }
  return last;
}

}  // namespace itif::bench
