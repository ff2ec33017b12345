#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace itif {

void check_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "itif: %s:%d: CHECK(%s) failed\n", file, line, condition);
  std::abort();
}

}  // namespace itif
