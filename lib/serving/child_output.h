// Reads the output of a sandboxed child, its standard error. If the parsed files have taken the
// child over, the output may be any bytes.
//
//   output = lines of libraries; kTextFollows; the text that the child returns
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "serving/sandbox.h"

namespace itif::serving {

inline constexpr char kTextFollows = '\x1e';

// Returns the text of a child that ended with `status` (as waitpid() gives it). `in_time`: false if
// it was killed because it took too long. Errors: those of run_child().
Result<std::string> text_of_child(std::string_view output, int status, bool in_time,
                                  const SandboxLimits& limits);

}  // namespace itif::serving
