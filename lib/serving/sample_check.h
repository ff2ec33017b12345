// Checks a model's answers to its own sample inputs (model/samples.h).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "model/samples.h"
#include "pipeline/local_requests.h"

namespace itif::serving {

// Compares one answer. Errors: kInvalidArgument: the answer is not the expected one; names the
// sample and the largest difference.
Status compare(const model::Sample& sample, const pipeline::LocalRequests::Answer& answer);

// Asks the model for each sample and compares its answers. Samples that the group refuses because
// it is busy are asked again. Errors: those of compare(); kInvalidArgument (the model refuses a
// sample), kUnavailable (`gives_up` has returned true, or the device failed).
Status check_samples(std::span<const model::Sample> samples, pipeline::LocalRequests& requests,
                     pipeline::GroupInbox& inbox, const tenant::ServedModel& model,
                     const std::function<bool()>& gives_up);

}  // namespace itif::serving
