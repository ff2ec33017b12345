// A handover to another itifd process, as control asks for it. lib/serving implements it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "control/appliance.h"
#include "control/operation.h"

namespace itif::control {

class Handover {
 public:
  virtual ~Handover() = default;

  // Starts the new process, waits until it serves, and answers what this one accepted. On success
  // this process must end. On error it serves as before. Job thread.
  // Errors: kInvalidArgument (the new process refuses its configuration, or the ports differ),
  // kNotFound (no such program), kUnavailable (the time passed, or cancelled, or the process that
  // handed over to this one has not ended), kUnsupported (the ports cannot be handed over), those
  // of the new process.
  virtual Result<nlohmann::json> run(const HandOver& operation, const Progress& progress) = 0;
  // Makes a run fail soon, unless the new process serves already. Any thread.
  virtual void cancel() noexcept = 0;
};

}  // namespace itif::control
