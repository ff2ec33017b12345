#include "report/write_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>

namespace itif::bench {

Status write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::trunc);
  if (!file)
    return fail(Code::kPermission, fmt::format("cannot write {}: {}", path, errno_text(errno)));
  file << text;
  file.close();
  if (!file) return fail(Code::kResourceExhausted, fmt::format("could not write all of {}", path));
  return {};
}

}  // namespace itif::bench
