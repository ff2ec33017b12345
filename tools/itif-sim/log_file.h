// A file that a simulation writes its events to.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "base/error.h"

namespace itif::sim {

class LogFile {
 public:
  // `path` empty: no file. Errors: kPermission.
  static Result<LogFile> open(const std::string& path);
  std::FILE* get() const noexcept { return file_.get(); }  // nullptr: no file
  // Writes what is left. Errors: kResourceExhausted, events are missing in the file.
  Status close();

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
};

}  // namespace itif::sim
