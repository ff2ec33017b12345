// Tenants' keys on the admin's side, so that `itifctl infer` works after `tenant add` without copying
// a key about: $XDG_CONFIG_HOME/itif/keys.json (~/.config/…), mode 0600.
//
//   {"v":1, "keys":{"<control endpoint>":{"<tenant id>":
//      {"name":…, "created_unix_ns":…, "epoch":…, "key":"<32 hex digits>"}}}}
//
// By id, for names change; with the time of creation, for ids start anew if a registry is thrown away.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace itif::ctl {

struct StoredKey {
  std::string name;
  uint64_t created_unix_ns = 0;  // the tenant, not the key
  uint16_t epoch = 0;
  std::string key_hex;
};

class KeyStore {
 public:
  explicit KeyStore(std::string path) : path_(std::move(path)) {}
  // The user's. Errors: kNotFound (neither XDG_CONFIG_HOME nor HOME is set).
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
