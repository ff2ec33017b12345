#include "control/curve.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>

#include <sstream>

#include "base/check.h"
#include "control/file.h"
#include "control/hex.h"

namespace itif::control {
namespace {

constexpr size_t kMaxKeyFileBytes = 1 << 20;

template <class Key>
std::string hex_of(const Key& key) {
  return to_hex(std::as_bytes(std::span(key)));
}

// "<first word> <rest of the line>", both without surrounding blanks.
std::pair<std::string, std::string> split_line(const std::string& line) {
  std::istringstream in(line);
  std::string first, rest;
  in >> first >> std::ws;
  std::getline(in, rest);
  while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\t' || rest.back() == '\r'))
    rest.pop_back();
  return {first, rest};
}

bool is_comment(const std::string& first_word) {
  return first_word.empty() || first_word[0] == '#';
}

}  // namespace

CurveKeyPair make_curve_key_pair() {
  CHECK(sodium_init() >= 0);
  CurveKeyPair pair;
  // CURVE's long-term keys are those of libsodium's crypto_box.
  static_assert(crypto_box_PUBLICKEYBYTES == 32 && crypto_box_SECRETKEYBYTES == 32);
  crypto_box_keypair(pair.public_key.data(), pair.secret_key.data());
  return pair;
}

Status write_key_pair(const std::string& path, const std::string& name, const CurveKeyPair& pair) {
  for (const std::string& taken : {path, path + ".pub"}) {
    struct stat info {};
    if (::lstat(taken.c_str(), &info) == 0)
      return fail(Code::kAlreadyExists,
                  taken + " exists: name another file, or remove it if no one uses that key");
  }
  ITIF_TRY(write_file(
      path,
      fmt::format("# itif CURVE key pair: keep this file to its owner\npublic {}\nsecret "
                  "{}\n",
                  hex_of(pair.public_key), hex_of(pair.secret_key)),
      0600));
  return write_file(path + ".pub", fmt::format("{} {}\n", hex_of(pair.public_key), name), 0644);
}

Result<CurveKeyPair> read_key_pair(const std::string& path) {
  ITIF_ASSIGN(const std::string text, read_file(path, kMaxKeyFileBytes));
  ITIF_TRY(check_mode(path, 077));
  CurveKeyPair pair;
  bool has_public = false, has_secret = false;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto [word, hex] = split_line(line);
    if (is_comment(word)) continue;
    bool good = false;
    if (word == "public")
      good = has_public = from_hex(hex, std::as_writable_bytes(std::span(pair.public_key)));
    if (word == "secret")
      good = has_secret = from_hex(hex, std::as_writable_bytes(std::span(pair.secret_key)));
    if (!good)
      return fail(Code::kCorrupt,
                  fmt::format("{}:{}: expected 'public' or 'secret' and 64 hex digits: "
                              "make a key file with `itifctl keygen`",
                              path, number));
  }
  if (!has_public || !has_secret)
    return fail(Code::kCorrupt,
                fmt::format("{} has no '{}' line: make a key file with `itifctl keygen`", path,
                            has_public ? "secret" : "public"));
  CurvePublicKey derived;
  crypto_scalarmult_base(derived.data(), pair.secret_key.data());
  if (derived != pair.public_key)
    return fail(Code::kCorrupt, path +
                                    ": the public key does not match the secret key: make a new "
                                    "key file with `itifctl keygen`");
  return pair;
}

Result<CurvePublicKey> parse_public_key(const std::string& hex_or_path) {
  CurvePublicKey key;
  if (from_hex(hex_or_path, std::as_writable_bytes(std::span(key)))) return key;
  auto text = read_file(hex_or_path, kMaxKeyFileBytes);
  if (!text)
    return fail(text.error().code, fmt::format("a public key is 64 hex digits or a .pub file: {}",
                                               text.error().message));
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    const std::string word = split_line(line).first;
    if (is_comment(word)) continue;
    if (from_hex(word, std::as_writable_bytes(std::span(key)))) return key;
    break;
  }
  return fail(
      Code::kCorrupt,
      hex_or_path + ": no line starts with a public key: use the .pub file of `itifctl keygen`");
}

Result<std::vector<AuthorizedKey>> read_authorized_keys(const std::string& path) {
  ITIF_ASSIGN(const std::string text, read_file(path, kMaxKeyFileBytes));
  ITIF_TRY(check_mode(path, 022));
  std::vector<AuthorizedKey> keys;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto [word, name] = split_line(line);
    if (is_comment(word)) continue;
    AuthorizedKey& key = keys.emplace_back();
    key.name = name;
    if (!from_hex(word, std::as_writable_bytes(std::span(key.key))))
      return fail(Code::kCorrupt,
                  fmt::format("{}:{}: expected 64 hex digits (a line of the client's .pub "
                              "file), then a name",
                              path, number));
  }
  return keys;
}

}  // namespace itif::control
