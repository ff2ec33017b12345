// The requests of a batch, laid out by a planner and ready to run on an Encoder.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "plan/plan.h"
#include "plan/planner.h"
#include "workload/encoder_setup.h"

namespace itif::bench {

struct PlannedBatch {
  plan::Plan plan;
  std::vector<Encoder::Batch> passes;  // one per pass of the plan
};

// Plans and verifies. `images`: the batch of the same requests, if the model takes images; its
// segment i is item i. Errors: kInvalidArgument (the planner's), kInternal (the plan is wrong).
Result<PlannedBatch> make_planned_batch(std::string_view planner,
                                        const plan::PlannerOptions& options,
                                        std::span<const plan::Item> items, uint32_t vocab,
                                        const Encoder::Batch* images = nullptr);

// Runs all passes, each to its end.
Status forward(Encoder& encoder, const PlannedBatch& planned);

// The last hidden state of each item's last token, [items, hidden].
Result<std::vector<float>> last_states(Encoder& encoder, const PlannedBatch& planned);

}  // namespace itif::bench
