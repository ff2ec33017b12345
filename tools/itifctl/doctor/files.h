// The files of a machine that the checks read: /proc, /sys, /dev, below a root that tests replace.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace itif::ctl::doctor {

class Files {
 public:
  explicit Files(std::string root = {}) : root_(std::move(root)) {}

  // The file's text without blanks at its end; nullopt: it cannot be read.
  std::optional<std::string> text(const std::string& path) const;
  std::string text_or(const std::string& path, std::string otherwise) const;
  // The first number in the file; nullopt: there is none.
  std::optional<int64_t> number(const std::string& path) const;
  std::vector<std::string> lines(const std::string& path) const;
  // Names in a folder, in order; empty: there is no such folder.
  std::vector<std::string> list(const std::string& path) const;
  bool exists(const std::string& path) const;
  // The last part of a link's target, as in driver -> ../../bus/pci/drivers/vfio-pci; "": no link.
  std::string link_name(const std::string& path) const;
  std::optional<struct stat> status(const std::string& path) const;
  // As access(2) for this process: `mode` of R_OK, W_OK, X_OK.
  bool may(const std::string& path, int mode) const;
  // Makes a directory in `folder` and removes it again. Returns 0, or the errno. access(2) cannot
  // tell: root passes it in /proc and /sys, where nobody can make one.
  int try_make_directory_in(const std::string& folder) const;

 private:
  const std::string root_;
};

}  // namespace itif::ctl::doctor
