#include "runtime/generation_options.h"

#include <fmt/format.h>

namespace itif::runtime {

Result<Joining> parse_joining(std::string_view name) {
  if (name == "steps") return Joining::kSteps;
  if (name == "batches") return Joining::kBatches;
  return fail(Code::kInvalidArgument,
              fmt::format("sequences join at 'steps' or 'batches', not at '{}'", name));
}

Result<Cleaning> parse_cleaning(std::string_view name) {
  if (name == "sequence") return Cleaning::kSequence;
  if (name == "slot") return Cleaning::kSlot;
  if (name == "batch") return Cleaning::kBatch;
  return fail(
      Code::kInvalidArgument,
      fmt::format("K/V memory is given back by 'sequence', 'slot' or 'batch', not by '{}'", name));
}

}  // namespace itif::runtime
