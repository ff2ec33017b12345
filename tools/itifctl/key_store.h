// Stores tenants' keys for the administrator, so that `itifctl infer` works after `tenant add`
// without passing a key: $XDG_CONFIG_HOME/itif/keys.json (or ~/.config/itif/keys.json), mode 0600.
//
//   {"v":1, "keys":{"<control endpoint>":{"<tenant id>":
//      {"name":…, "created_unix_ns":…, "epoch":…, "key":"<32 hex digits>"}}}}
//
// Keys are found by id, because names can change. The time of creation tells tenants with the same
// id apart: an appliance whose whole state directory was removed begins with id 1 again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace itif::ctl {

struct StoredKey {
  std::string name;
  uint64_t created_unix_ns = 0;  // creation of the tenant, not of the key
  uint16_t epoch = 0;
  std::string key_hex;
};

class KeyStore {
 public:
  explicit KeyStore(std::string path) : path_(std::move(path)) {}
  // The user's key store. Errors: kNotFound (neither XDG_CONFIG_HOME nor HOME is set).
  static Result<KeyStore> of_user();

  // Errors: kPermission (others can read the file), kCorrupt.
  Result<std::optional<StoredKey>> find(const std::string& endpoint, uint32_t tenant_id) const;
  Status save(const std::string& endpoint, uint32_t tenant_id, const StoredKey& key);
  Status forget(const std::string& endpoint, uint32_t tenant_id);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace itif::ctl
