#include "base/own_program.h"

#include <unistd.h>

#include <cstdlib>

namespace itif {

std::string own_program() {
  if (const char* program = std::getenv("ITIF_PROGRAM"); program != nullptr && program[0] != '\0')
    return program;
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

}  // namespace itif
