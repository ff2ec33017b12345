#include "device/host/pool_wait.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "base/own_program.h"

namespace itif::device {

void limit_pool_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "30000", 1);
  // By its true path: executed as /proc/self/exe the process would be called "exe".
  if (const std::string program = own_program(); !program.empty()) execv(program.c_str(), argv);
  // Not fatal: /proc may not be mounted. The pool then spins as libgomp likes.
  log::warning(
      "cannot limit the compute pool's spinning ({}); set GOMP_SPINCOUNT=30000 in the "
      "environment",
      errno_text(errno));
}

}  // namespace itif::device
