#include "base/own_program.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace itif {

std::string own_program() {
  if (const char* program = std::getenv("ITIF_PROGRAM"); program != nullptr && program[0] != '\0')
    return program;
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  std::string program(path, length > 0 ? static_cast<size_t>(length) : 0);
  // The kernel's mark of a file that has been replaced: the new file has the path.
  constexpr std::string_view kReplaced = " (deleted)";
  if (program.ends_with(kReplaced)) program.resize(program.size() - kReplaced.size());
  return program;
}

}  // namespace itif
