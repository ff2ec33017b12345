#include "doctor/files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

namespace itif::ctl::doctor {

namespace fs = std::filesystem;

std::optional<std::string> Files::text(const std::string& path) const {
  std::ifstream file(root_ + path);
  if (!file) return std::nullopt;
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (file.bad()) return std::nullopt;
  const size_t end = text.find_last_not_of(" \t\r\n");
  text.erase(end == text.npos ? 0 : end + 1);
  return text;
}

std::string Files::text_or(const std::string& path, std::string otherwise) const {
  return text(path).value_or(std::move(otherwise));
}

std::optional<int64_t> Files::number(const std::string& path) const {
  const std::string found = text_or(path, "");
  int64_t value = 0;
  const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

std::vector<std::string> Files::lines(const std::string& path) const {
  std::vector<std::string> all;
  std::istringstream in(text_or(path, ""));
  for (std::string line; std::getline(in, line);) all.push_back(line);
  return all;
}

std::vector<std::string> Files::list(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator entry(root_ + path, ignored), end; entry != end;
       entry.increment(ignored))
    names.push_back(entry->path().filename());
  std::ranges::sort(names);
  return names;
}

bool Files::exists(const std::string& path) const {
  return status(path).has_value();
}

std::string Files::link_name(const std::string& path) const {
  std::error_code error;
  const fs::path target = fs::read_symlink(root_ + path, error);
  return error ? std::string() : target.filename().string();
}

std::optional<struct stat> Files::status(const std::string& path) const {
  struct stat found {};
  if (::stat((root_ + path).c_str(), &found) != 0) return std::nullopt;
  return found;
}

bool Files::may(const std::string& path, int mode) const {
  return ::access((root_ + path).c_str(), mode) == 0;
}

int Files::try_make_directory_in(const std::string& folder) const {
  std::string name = root_ + folder + "/.itifctl-doctor-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return errno;
  ::rmdir(name.c_str());
  return 0;
}

}  // namespace itif::ctl::doctor
