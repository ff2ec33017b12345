#include "key_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "control/file.h"
#include "json/json_file.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = 8 << 20;

Result<json> read(const std::string& path) {
  auto text = control::read_file(path, kMaxBytes);
  if (!text) {
    if (text.error().code == Code::kNotFound) return json{{"v", 1}, {"keys", json::object()}};
    return std::unexpected(text.error());
  }
  ITIF_TRY(control::check_mode(path, 077));
  auto parsed = json_file::parse_json_object(*text, path);
  if (!parsed)
    return fail(Code::kCorrupt, parsed.error().message +
                                    ": it is not a key file of itifctl: move "
                                    "it away");
  json document = *std::move(parsed);
  const bool good =
      document.value("v", json()) == 1 && document.contains("keys") && document["keys"].is_object();
  if (!good) return fail(Code::kCorrupt, path + " is not a key file of itifctl: move it away");
  return document;
}

// Reads, changes and writes the file under a lock.
Status edit(const std::string& path, const std::function<void(json& keys)>& change) {
  ITIF_TRY(control::make_private_directory(path.substr(0, path.rfind('/'))));
  const std::string lock_path = path + ".lock";
  control::Descriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0)
    return fail(Code::kPermission, fmt::format("cannot lock {}: {}", lock_path, errno_text(errno)));
  ITIF_ASSIGN(json document, read(path));
  change(document["keys"]);
  return control::write_file(path, document.dump(2) + "\n", 0600);
}

}  // namespace

Result<KeyStore> KeyStore::of_user() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/')
    return KeyStore(std::string(config) + "/itif/keys.json");
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/')
    return KeyStore(std::string(home) + "/.config/itif/keys.json");
  return fail(Code::kNotFound, "HOME is not set, so keys cannot be stored: pass --key or ITIF_KEY");
}

Result<std::optional<StoredKey>> KeyStore::find(const std::string& endpoint,
                                                uint32_t tenant_id) const {
  ITIF_ASSIGN(const json document, read(path_));
  const json entry =
      document["keys"].value(endpoint, json::object()).value(std::to_string(tenant_id), json());
  if (entry.is_null()) return std::nullopt;
  try {
    return StoredKey{entry.at("name"), entry.at("created_unix_ns"), entry.at("epoch"),
                     entry.at("key")};
  } catch (const json::exception&) {
    return fail(Code::kCorrupt,
                fmt::format("{}: the entry of tenant {} is damaged: remove it and pass "
                            "--key",
                            path_, tenant_id));
  }
}

Status KeyStore::save(const std::string& endpoint, uint32_t tenant_id, const StoredKey& key) {
  return edit(path_, [&](json& keys) {
    keys[endpoint][std::to_string(tenant_id)] = {{"name", key.name},
                                                 {"created_unix_ns", key.created_unix_ns},
                                                 {"epoch", key.epoch},
                                                 {"key", key.key_hex}};
  });
}

Status KeyStore::forget(const std::string& endpoint, uint32_t tenant_id) {
  ITIF_ASSIGN(const auto found, find(endpoint, tenant_id));
  if (!found) return {};
  return edit(path_, [&](json& keys) { keys[endpoint].erase(std::to_string(tenant_id)); });
}

}  // namespace itif::ctl
