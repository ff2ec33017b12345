// Parses tenants from arguments and from itifctl's JSON, and the distributions of requests.
#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/units.h"
#include "json/json_file.h"
#include "options.h"

namespace itif::loadgen {
namespace {

template <class Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_key(std::string_view text, wire::Key& out) {
  if (text.size() != 2 * out.size()) return false;
  for (size_t i = 0; i < out.size(); ++i) {
    uint8_t byte = 0;
    const auto [end, error] =
        std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, byte, 16);
    if (error != std::errc() || end != text.data() + 2 * i + 2) return false;
    out[i] = std::byte{byte};
  }
  return true;
}

bool parse_auth(std::string_view text, wire::Auth& out) {
  for (const wire::Auth auth :
       {wire::Auth::kNone, wire::Auth::kHeader, wire::Auth::kFull, wire::Auth::kSealed}) {
    if (text != wire::auth_name(auth)) continue;
    out = auth;
    return true;
  }
  return false;
}

std::unexpected<Error> bad_target(const std::string& text, const char* what) {
  return fail(Code::kInvalidArgument,
              fmt::format("--tenant {}: {}; must be NAME:ID:KEY[:EPOCH[:AUTH]], as in "
                          "acme:1:000102030405060708090a0b0c0d0e0f:1:full",
                          text, what));
}

Result<Target> target_of(const nlohmann::json& json, const std::string& where) {
  const auto bad = [&](const char* field, const char* expected) {
    return fail(Code::kInvalidArgument, fmt::format("{}: '{}' must be {}", where, field, expected));
  };
  if (!json.is_object())
    return fail(Code::kInvalidArgument, fmt::format("{}: a tenant must be a JSON object", where));
  // itifctl writes the key next to the object "tenant", not in it.
  const nlohmann::json& tenant = json.contains("tenant") ? json["tenant"] : json;
  const nlohmann::json& holder = json.contains("key") ? json : tenant;
  if (!tenant.is_object()) return bad("tenant", "an object");
  Target target;
  const auto id = tenant.find("id");
  if (id == tenant.end() || !id->is_number_unsigned() || id->get<uint64_t>() > UINT32_MAX)
    return bad("id", "a number up to 4294967295");
  target.credential.tenant_id = id->get<uint32_t>();
  const auto key = holder.find("key");
  if (key == holder.end() || !key->is_string() ||
      !parse_key(key->get_ref<const std::string&>(), target.credential.key))
    return bad("key", "32 hexadecimal digits, which itifctl prints only when the key is made");
  for (const char* name : {"key_epoch", "epoch"}) {
    const auto epoch = tenant.find(name);
    if (epoch == tenant.end()) continue;
    if (!epoch->is_number_unsigned() || epoch->get<uint64_t>() > UINT16_MAX)
      return bad(name, "a number up to 65535");
    target.credential.key_epoch = epoch->get<uint16_t>();
  }
  if (const auto auth = tenant.find("auth"); auth != tenant.end()) {
    if (!auth->is_string() ||
        !parse_auth(auth->get_ref<const std::string&>(), target.credential.auth))
      return bad("auth", "none, header, full or sealed");
  }
  target.name = std::to_string(target.credential.tenant_id);
  if (const auto name = tenant.find("name"); name != tenant.end()) {
    if (!name->is_string()) return bad("name", "a string");
    target.name = name->get<std::string>();
  }
  return target;
}

}  // namespace

Result<Target> parse_target(const std::string& text) {
  std::vector<std::string_view> fields;
  for (size_t start = 0;;) {
    const size_t end = text.find(':', start);
    fields.push_back(std::string_view(text).substr(start, end - start));
    if (end == std::string::npos) break;
    start = end + 1;
  }
  if (fields.size() < 3 || fields.size() > 5) return bad_target(text, "not 3 to 5 fields");
  Target target{.name = std::string(fields[0]), .credential = {}};
  if (target.name.empty()) return bad_target(text, "the name is empty");
  if (!parse_number(fields[1], target.credential.tenant_id))
    return bad_target(text, "the id is not a number");
  if (!parse_key(fields[2], target.credential.key))
    return bad_target(text, "the key is not 32 hexadecimal digits");
  if (fields.size() > 3 && !parse_number(fields[3], target.credential.key_epoch))
    return bad_target(text, "the epoch is not a number up to 65535");
  if (fields.size() > 4 && !parse_auth(fields[4], target.credential.auth))
    return bad_target(text, "auth must be none, header, full or sealed");
  return target;
}

Result<std::vector<Target>> read_targets(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return fail(Code::kNotFound, fmt::format("{}: cannot read the file; make one with "
                                             "itifctl --json tenant add … > FILE",
                                             path));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  auto parsed = json_file::parse_json(text, path);
  if (!parsed) return fail(Code::kInvalidArgument, std::move(parsed.error().message));
  const nlohmann::json json = *std::move(parsed);
  const nlohmann::json* root = &json;
  for (const char* wrapper : {"result", "tenants"}) {
    if (root->is_object() && root->contains(wrapper)) root = &(*root)[wrapper];
  }
  std::vector<Target> targets;
  if (root->is_array()) {
    for (size_t i = 0; i < root->size(); ++i) {
      ITIF_ASSIGN(Target target, target_of((*root)[i], fmt::format("{}, entry {}", path, i)));
      targets.push_back(std::move(target));
    }
  } else {
    ITIF_ASSIGN(Target target, target_of(*root, fmt::format("{}", path)));
    targets.push_back(std::move(target));
  }
  if (targets.empty())
    return fail(Code::kInvalidArgument, fmt::format("{}: the file has no tenant", path));
  return targets;
}

Status parse_image(const std::string& text, wire::PayloadKind& kind, wire::ImagePrefix& image) {
  std::string_view rest(text);
  uint16_t* const fields[] = {&image.height, &image.width, &image.channels};
  const char before[] = {':', 'x', 'x'};
  bool good = true;
  size_t at = rest.find(':');
  kind = rest.substr(0, at) == "image_f32" ? wire::PayloadKind::kImageF32
                                           : wire::PayloadKind::kImageU8;
  if (rest.substr(0, at) != wire::payload_kind_name(kind)) good = false;
  for (size_t i = 0; i < 3 && good; ++i) {
    good = at < rest.size() && rest[at] == before[i];
    if (!good) break;
    rest.remove_prefix(at + 1);
    at = std::min(rest.find('x'), rest.size());
    good = parse_number(rest.substr(0, at), *fields[i]) && (i < 2 || at == rest.size());
  }
  if (good && wire::image_payload_bytes(kind, image) != 0) return {};
  return fail(
      Code::kInvalidArgument,
      fmt::format("--payload {}: must be image_u8:HEIGHTxWIDTHxCHANNELS or image_f32:…, of at "
                  "most 16 MiB",
                  text));
}

Result<Deadlines> parse_deadlines(const std::string& text) {
  const auto bad = [&] {
    return fail(Code::kInvalidArgument,
                fmt::format("--budget {}: must be T, uniform:T-T or length:T,T (and T per token), "
                            "with T as in 25ms, in all from 1us to 71m",
                            text));
  };
  const auto parse = [](std::string_view duration, uint64_t& us) {
    const auto ns = parse_duration_ns(duration);
    if (ns) us = *ns / 1000;
    return ns.has_value();
  };
  std::string_view rest(text);
  Deadlines deadlines{.kind = Deadlines::Kind::kFixed};
  char separator = '\0';
  if (rest.starts_with("uniform:")) {
    deadlines.kind = Deadlines::Kind::kUniform;
    separator = '-';
  } else if (rest.starts_with("length:")) {
    deadlines.kind = Deadlines::Kind::kByLength;
    separator = ',';
  }
  if (rest.starts_with("fixed:") || separator != '\0') rest.remove_prefix(rest.find(':') + 1);
  if (separator != '\0') {
    size_t at = rest.find(separator);
    if (at == std::string_view::npos) at = rest.find(':');
    if (at == std::string_view::npos || !parse(rest.substr(at + 1), deadlines.second_us))
      return bad();
    rest = rest.substr(0, at);
  }
  if (!parse(rest, deadlines.first_us) || deadlines.first_us == 0 ||
      max_budget_us(deadlines) > UINT32_MAX ||
      (separator == '-' && deadlines.first_us > deadlines.second_us))
    return bad();
  return deadlines;
}

uint64_t max_budget_us(const Deadlines& deadlines) {
  constexpr uint64_t kMaxTokens = 65536;
  switch (deadlines.kind) {
    case Deadlines::Kind::kNone: return 0;
    case Deadlines::Kind::kFixed: return deadlines.first_us;
    case Deadlines::Kind::kUniform: return deadlines.second_us;
    case Deadlines::Kind::kByLength: break;
  }
  // No sum of two such values exceeds 64 bits.
  if (deadlines.second_us > UINT32_MAX || deadlines.first_us > UINT32_MAX) return UINT64_MAX;
  return deadlines.first_us + kMaxTokens * deadlines.second_us;
}

Result<Lengths> parse_lengths(const std::string& text) {
  const auto bad = [&] {
    return fail(Code::kInvalidArgument,
                fmt::format("--lengths {}: must be fixed:N, uniform:A-B or normal:MEAN,DEVIATION, "
                            "in tokens from 1 to 65536",
                            text));
  };
  const auto split = [&](std::string_view rest, char separator, Lengths& out) {
    size_t at = rest.find(separator);
    if (at == std::string_view::npos) at = rest.find(':');
    return at != std::string_view::npos && parse_number(rest.substr(0, at), out.first) &&
           parse_number(rest.substr(at + 1), out.second);
  };
  const std::string_view view(text);
  Lengths lengths;
  bool good = false;
  if (view.starts_with("fixed:")) {
    lengths.kind = Lengths::Kind::kFixed;
    good = parse_number(view.substr(6), lengths.first);
  } else if (view.starts_with("uniform:")) {
    lengths.kind = Lengths::Kind::kUniform;
    good = split(view.substr(8), '-', lengths) && lengths.first <= lengths.second &&
           lengths.second <= 65536;
  } else if (view.starts_with("normal:")) {
    lengths.kind = Lengths::Kind::kNormal;
    good = split(view.substr(7), ',', lengths) && lengths.second >= 0 && lengths.second <= 65536;
  }
  if (!good || !(lengths.first >= 1) || !(lengths.first <= 65536)) return bad();
  return lengths;
}

}  // namespace itif::loadgen
