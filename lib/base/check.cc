#include "base/check.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

#include "base/log_output.h"

namespace itif {

void check_failed(const char* condition, const char* file, int line) noexcept {
  log::LogOutput(STDERR_FILENO)
      .write(fmt::format("itif: {}:{}: CHECK({}) failed\n", file, line, condition));
  std::abort();
}

}  // namespace itif
