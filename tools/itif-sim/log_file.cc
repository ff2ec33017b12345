#include "log_file.h"

#include <fmt/format.h>

#include <cerrno>

namespace itif::sim {

Result<LogFile> LogFile::open(const std::string& path) {
  LogFile log;
  log.path_ = path;
  if (path.empty()) return log;
  log.file_.reset(std::fopen(path.c_str(), "w"));
  if (!log.file_) return fail(Code::kPermission, fmt::format("{}: {}", path, errno_text(errno)));
  return log;
}

Status LogFile::close() {
  if (!file_) return {};
  const bool had_error = std::ferror(file_.get()) != 0;
  if (std::fclose(file_.release()) == 0 && !had_error) return {};
  return fail(Code::kResourceExhausted,
              fmt::format("{}: events are missing: {}", path_, errno_text(errno)));
}

}  // namespace itif::sim
