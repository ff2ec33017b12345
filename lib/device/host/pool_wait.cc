#include "device/host/pool_wait.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"

namespace itif::device {

void limit_pool_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "30000", 1);
  // By its true path: executed as /proc/self/exe the process would be called "exe".
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length > 0) {
    path[length] = '\0';
    execv(path, argv);
  }
  // Not fatal: /proc may not be mounted. The pool then spins as libgomp likes.
  log::warning(
      "cannot limit the compute pool's spinning ({}); set GOMP_SPINCOUNT=30000 in the "
      "environment",
      errno_text(errno));
}

}  // namespace itif::device
