#include "device/host/pool_wait.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "base/own_program.h"

namespace itif::device {
namespace {

constexpr const char* kChosenHere = "ITIF_CHOOSES_SPINNING";  // for the program executed again

}  // namespace

void limit_pool_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  setenv("GOMP_SPINCOUNT", "30000", 1);
  setenv(kChosenHere, "1", 1);
  // Use the true path: the process would be named "exe" if executed as /proc/self/exe.
  if (const std::string program = own_program(); !program.empty()) execv(program.c_str(), argv);
  // Not fatal: /proc may not be mounted. The pool then spins by libgomp's default.
  log::warning(
      "cannot limit the compute pool's spinning ({}); set GOMP_SPINCOUNT=30000 in the "
      "environment",
      errno_text(errno));
}

bool chooses_pool_spinning() {
  return std::getenv(kChosenHere) != nullptr;
}

}  // namespace itif::device
