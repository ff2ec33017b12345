// CURVE keys for control over TCP: key files and the list of authorised clients.
//
//   key file (mode 0600):         authorised keys file (not writable by others):
//     public <64 hex digits>        <64 hex digits> <name, for people>
//     secret <64 hex digits>        # comment
//
// Keys are hex, not Z85: Z85 uses '#', '$' and '&', which are special in shells and in these files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/wipe.h"

namespace itif::control {

using CurvePublicKey = std::array<uint8_t, 32>;

// The secret key is overwritten when the pair is freed.
struct CurveKeyPair {
  CurveKeyPair() = default;
  CurveKeyPair(const CurveKeyPair&) = default;
  CurveKeyPair& operator=(const CurveKeyPair&) = default;
  ~CurveKeyPair() { wipe(std::as_writable_bytes(std::span(secret_key))); }

  CurvePublicKey public_key{};
  std::array<uint8_t, 32> secret_key{};
};

CurveKeyPair make_curve_key_pair();

// Writes `path` (0600, both keys) and `path`.pub (0644, one line for an authorised keys file).
// Errors: kAlreadyExists (either file exists), those of write_file.
Status write_key_pair(const std::string& path, const std::string& name, const CurveKeyPair& pair);
// Errors: kNotFound, kPermission (group or others can read it), kCorrupt with the line.
Result<CurveKeyPair> read_key_pair(const std::string& path);
// Accepts 64 hex digits or the path of a .pub file. Errors: kInvalidArgument, kNotFound.
Result<CurvePublicKey> parse_public_key(const std::string& hex_or_path);

struct AuthorizedKey {
  CurvePublicKey key{};
  std::string name;
};
// Errors: kNotFound, kPermission (group or others can write it), kCorrupt with the line.
Result<std::vector<AuthorizedKey>> read_authorized_keys(const std::string& path);

}  // namespace itif::control
