#include "serving/process_limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <cerrno>

namespace itif::serving {

Status limit_process(const config::Process& process) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return fail(Code::kUnsupported, "cannot set no_new_privs: " + errno_text(errno));
  if (process.core_dumps) return {};
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0 || ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
    return fail(Code::kUnsupported, "process.core_dumps: cannot forbid them: " + errno_text(errno) +
                                        ": set it to true");
  return {};
}

}  // namespace itif::serving
