#include "control/registry_mark.h"

#include <fmt/format.h>
#include <sodium/crypto_generichash.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>

#include "control/file.h"
#include "control/hex.h"
#include "json/json_file.h"

namespace itif::control {
namespace {

using nlohmann::json;

constexpr size_t kMaxMarkBytes = 4096;
constexpr const char* kLastIdAttribute = "user.itif.last_id";

std::string path_of(const std::string& state_dir) {
  return state_dir + "/registry.mark";
}

std::string checksum_of(const RegistryMark& mark) {
  const std::string text = fmt::format("{} {} {}", mark.identity, mark.changes, mark.last_id);
  std::array<std::byte, 16> hash;
  crypto_generichash(reinterpret_cast<unsigned char*>(hash.data()), hash.size(),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  return to_hex(hash);
}

std::optional<RegistryMark> parse(const std::string& text, const std::string& path) {
  const auto object = json_file::parse_json_object(text, path);
  if (!object) return std::nullopt;
  const auto identity = object->find("identity"), changes = object->find("changes"),
             last_id = object->find("last_id"), checksum = object->find("checksum");
  if (object->size() != 4 || identity == object->end() || !identity->is_string() ||
      changes == object->end() || !changes->is_number_unsigned() || last_id == object->end() ||
      !last_id->is_number_unsigned() || checksum == object->end() || !checksum->is_string())
    return std::nullopt;
  const auto id = last_id->get<uint64_t>();
  if (id > UINT32_MAX) return std::nullopt;
  RegistryMark mark{identity->get<std::string>(), changes->get<uint64_t>(),
                    static_cast<uint32_t>(id)};
  if (checksum->get<std::string>() != checksum_of(mark)) return std::nullopt;
  return mark;
}

std::string remedy(const std::string& state_dir) {
  return fmt::format("or run `itifctl registry accept {}` and start again", state_dir);
}

}  // namespace

Result<std::optional<RegistryMark>> read_mark(const std::string& state_dir) {
  const std::string path = path_of(state_dir);
  auto text = read_file(path, kMaxMarkBytes);
  if (!text) {
    if (text.error().code == Code::kNotFound) return std::nullopt;
    return std::unexpected(std::move(text.error()));
  }
  auto mark = parse(*text, path);
  if (!mark)
    return fail(Code::kCorrupt,
                fmt::format("{} is damaged: restore it from a backup, {}, which accepts the "
                            "registry beside it",
                            path, remedy(state_dir)));
  return mark;
}

uint32_t remembered_id(const std::string& state_dir) {
  std::array<char, 16> text{};
  const ssize_t size = ::getxattr(state_dir.c_str(), kLastIdAttribute, text.data(), text.size());
  if (size <= 0) return 0;
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + size, id);
  return error == std::errc() && end == text.data() + size ? id : 0;
}

Status write_mark(const std::string& state_dir, const RegistryMark& mark) {
  const json object = {{"identity", mark.identity},
                       {"changes", mark.changes},
                       {"last_id", mark.last_id},
                       {"checksum", checksum_of(mark)}};
  ITIF_TRY(write_file(path_of(state_dir), object.dump() + "\n", 0600));
  if (mark.last_id > remembered_id(state_dir)) {
    const std::string text = std::to_string(mark.last_id);
    // A file system without attributes has the file only.
    (void)::setxattr(state_dir.c_str(), kLastIdAttribute, text.data(), text.size(), 0);
  }
  return {};
}

Status check_not_behind(const RegistryContents& contents, const RegistryMark& mark,
                        const std::string& state_dir) {
  if (mark.identity.empty()) return {};
  const std::string path = state_dir + "/registry.db";
  if (contents.identity != mark.identity)
    return fail(Code::kCorrupt,
                fmt::format("{} is not the registry that was used here before: put that one back, "
                            "{} to use this one",
                            path, remedy(state_dir)));
  if (contents.changes >= mark.changes && contents.last_id >= mark.last_id) return {};
  const std::string what =
      contents.changes < mark.changes
          ? fmt::format(
                "{} of the {} changes that were answered are missing, rotated keys perhaps "
                "among them",
                mark.changes - contents.changes, mark.changes)
          : fmt::format("its highest tenant id is {}, but ids up to {} were given out here",
                        contents.last_id, mark.last_id);
  return fail(Code::kCorrupt,
              fmt::format("{} is older than it was: {}: put the newest copy back, with its -wal "
                          "file if it has one, {} to use this one",
                          path, what, remedy(state_dir)));
}

std::unexpected<Error> lost_registry(const RegistryMark& mark, const std::string& state_dir) {
  return fail(Code::kNotFound,
              fmt::format("{}/registry.db is missing or empty, but tenants were registered here "
                          "(ids up to {}): restore it from a backup, {} to begin without tenants",
                          state_dir, mark.last_id, remedy(state_dir)));
}

Status accept_registry(const std::string& state_dir) {
  struct stat info {};
  if (::stat(state_dir.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return fail(Code::kNotFound, state_dir + " is no directory: name control.state_dir");
  const std::string lock_path = state_dir + "/registry.lock";
  ITIF_ASSIGN(const FileLock lock, FileLock::acquire(lock_path, "stop that itifd before"));
  RegistryMark mark;
  auto found = read_mark(state_dir);
  if (found && *found) mark.last_id = (*found)->last_id;
  if (!found && found.error().code != Code::kCorrupt)
    return std::unexpected(std::move(found.error()));
  mark.last_id = std::max(mark.last_id, remembered_id(state_dir));
  ITIF_TRY(write_mark(state_dir, mark));
  // itifctl may be root's, and itifd another user's.
  for (const std::string& path : {path_of(state_dir), lock_path})
    if (::lchown(path.c_str(), info.st_uid, info.st_gid) != 0)
      return fail(Code::kPermission,
                  fmt::format("cannot give {} to the owner of {}: {}: run as that user or as root",
                              path, state_dir, errno_text(errno)));
  return {};
}

}  // namespace itif::control
