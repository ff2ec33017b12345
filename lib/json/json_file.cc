#include "json/json_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "json/json_text.h"
#include "json/unique_keys.h"

namespace itif::json_file {
namespace {

Error wrong(const std::string& origin, const char* key, const std::string& expected,
            const nlohmann::json* found) {
  return {Code::kInvalidArgument, fmt::format("{}: '{}' must be {}, found {}", origin, key,
                                              expected, found ? shown(*found) : "nothing")};
}

// Returns nullptr if absent or null: Hugging Face writes null for "not set".
const nlohmann::json* member(const nlohmann::json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, size_t max_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const Code code = errno == EACCES ? Code::kPermission : Code::kNotFound;
    return fail(code, fmt::format("{}: {}", path, errno_text(errno)));
  }
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat status;
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
    return fail(Code::kCorrupt, fmt::format("{}: not a regular file", path));
  if (static_cast<uint64_t>(status.st_size) > max_bytes)
    return fail(Code::kCorrupt, fmt::format("{}: expected at most {} bytes, found {}", path,
                                            max_bytes, status.st_size));
  std::string text(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(fd, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(Code::kCorrupt, fmt::format("{}: {}", path, errno_text(errno)));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

Result<nlohmann::json> parse_json(std::string_view text, const std::string& origin) {
  if (json_depth(text) > kMaxJsonDepth)
    return fail(Code::kCorrupt,
                fmt::format("{}: JSON nested deeper than {} levels", origin, kMaxJsonDepth));
  // The library takes a NUL for the end.
  if (text.contains('\0')) return fail(Code::kCorrupt, origin + ": not JSON: it has a NUL byte");
  UniqueKeys keys;
  try {
    nlohmann::json document = nlohmann::json::parse(text, std::ref(keys));
    if (keys.duplicate())
      return fail(Code::kCorrupt, fmt::format("{}: '{}' occurs twice in one object", origin,
                                              shown(nlohmann::json(*keys.duplicate()))));
    return document;
  } catch (const nlohmann::json::exception& e) {
    // The library's text ends with an excerpt of the input; only the position is kept.
    std::string what = e.what();
    const size_t excerpt = what.find(" - ");
    if (excerpt != std::string::npos) what.resize(excerpt);
    return fail(Code::kCorrupt, fmt::format("{}: not JSON: {}", origin, what));
  }
}

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& origin) {
  ITIF_ASSIGN(nlohmann::json document, parse_json(text, origin));
  if (!document.is_object())
    return fail(Code::kCorrupt,
                fmt::format("{}: expected a JSON object, found {}", origin, document.type_name()));
  return document;
}

Result<nlohmann::json> read_json_file(const std::string& path) {
  ITIF_ASSIGN(const std::string text, read_text_file(path, kMaxJsonFileBytes));
  return parse_json_object(text, path);
}

Result<uint32_t> get_uint(const nlohmann::json& object, const char* key, uint32_t least,
                          uint32_t most, const std::string& origin) {
  const nlohmann::json* value = member(object, key);
  if (value && value->is_number_integer() && *value >= 0) {
    const uint64_t number = value->get<uint64_t>();
    if (number >= least && number <= most) return static_cast<uint32_t>(number);
  }
  return std::unexpected(
      wrong(origin, key, fmt::format("an integer from {} to {}", least, most), value));
}

Result<uint32_t> get_uint_or(const nlohmann::json& object, const char* key, uint32_t least,
                             uint32_t most, uint32_t absent, const std::string& origin) {
  if (!member(object, key)) return absent;
  return get_uint(object, key, least, most, origin);
}

Result<double> get_number_or(const nlohmann::json& object, const char* key, double least,
                             double most, double absent, const std::string& origin) {
  const nlohmann::json* value = member(object, key);
  if (!value) return absent;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= least && number <= most) return number;
  }
  return std::unexpected(
      wrong(origin, key, fmt::format("a number from {} to {}", least, most), value));
}

Result<bool> get_bool_or(const nlohmann::json& object, const char* key, bool absent,
                         const std::string& origin) {
  const nlohmann::json* value = member(object, key);
  if (!value) return absent;
  if (value->is_boolean()) return value->get<bool>();
  return std::unexpected(wrong(origin, key, "true or false", value));
}

Result<bool> get_bool_or_null(const nlohmann::json& object, const char* key, bool absent,
                              const std::string& origin) {
  return get_bool_or(object, key, object.contains(key) ? false : absent, origin);
}

Result<bool> get_set_bool_or(const nlohmann::json& object, const char* key, bool absent,
                             const std::string& origin) {
  const auto it = object.find(key);
  if (it != object.end() && it->is_null())
    return fail(Code::kUnsupported, wrong(origin, key, "true or false", &*it).message);
  return get_bool_or(object, key, absent, origin);
}

Result<std::string> get_string_or(const nlohmann::json& object, const char* key,
                                  const std::string& absent, const std::string& origin) {
  const nlohmann::json* value = member(object, key);
  if (!value) return absent;
  if (value->is_string()) return value->get<std::string>();
  return std::unexpected(wrong(origin, key, "a string", value));
}

std::string shown(const nlohmann::json& value) {
  // ASCII only.
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace itif::json_file
