// Limits of this process that hold for all that it does. Main thread, before it starts others.
#pragma once

#include "base/error.h"
#include "config/config.h"

namespace itif::serving {

// The process and its successors gain no rights from programs that they start (no_new_privs).
// Unless allowed, no core dumps are written, and no other program of the same user can read the
// process's memory. Errors: kUnsupported (the kernel).
Status limit_process(const config::Process& process);

}  // namespace itif::serving
