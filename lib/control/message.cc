#include "control/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/wipe.h"
#include "json/json_file.h"
#include "json/json_text.h"
#include "json/unique_keys.h"

namespace itif::control {
namespace {

using nlohmann::json;

constexpr size_t kMaxIdBytes = 64;

// Messages may quote bytes of a file or a peer that are not UTF-8. Replaces them: the default
// handler would throw.
std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json envelope(const json& id) {
  return {{"v", kMessageVersion}, {"id", id}};
}

}  // namespace

std::expected<Request, Refusal> parse_request(std::string_view bytes) {
  json id = nullptr;
  const auto refuse = [&](Code code, std::string message) {
    return std::unexpected(Refusal{id, Error{code, std::move(message)}});
  };
  if (bytes.size() > kMaxRequestBytes)
    return refuse(Code::kInvalidArgument,
                  fmt::format("the request has {} bytes: at most {} are allowed", bytes.size(),
                              kMaxRequestBytes));
  if (json_depth(bytes) > kMaxDepth)
    return refuse(Code::kInvalidArgument,
                  fmt::format("the request is nested deeper than {} levels", kMaxDepth));
  // The library takes a NUL for the end.
  if (bytes.contains('\0'))
    return refuse(Code::kInvalidArgument,
                  "the request is not JSON in UTF-8: it contains a NUL byte");
  UniqueKeys keys;
  json message = json::parse(bytes, std::ref(keys), false);
  if (message.is_discarded())
    return refuse(Code::kInvalidArgument, "the request is not JSON in UTF-8");
  if (!message.is_object())
    return refuse(
        Code::kInvalidArgument,
        fmt::format("the request is a JSON {}: it must be an object", message.type_name()));

  const auto refuse_duplicate = [&] {
    return refuse(Code::kInvalidArgument, fmt::format("key {} occurs twice in one object",
                                                      json_file::shown(json(*keys.duplicate()))));
  };
  if (keys.duplicate() == "id") return refuse_duplicate();
  // Read the id first, so that every later error carries it.
  const auto found_id = message.find("id");
  if (found_id == message.end()) return refuse(Code::kInvalidArgument, "field 'id' is missing");
  const bool text_id =
      found_id->is_string() && found_id->get_ref<const std::string&>().size() <= kMaxIdBytes;
  if (!text_id && !found_id->is_number_unsigned())
    return refuse(
        Code::kInvalidArgument,
        fmt::format("field 'id' must be an unsigned integer or a string of at most {} bytes",
                    kMaxIdBytes));
  id = *found_id;
  if (keys.duplicate()) return refuse_duplicate();

  const auto version = message.find("v");
  if (version == message.end())
    return refuse(Code::kInvalidArgument,
                  fmt::format("field 'v' is missing: write \"v\":{}", kMessageVersion));
  if (!version->is_number_unsigned())
    return refuse(Code::kInvalidArgument, "field 'v' must be an unsigned integer");
  if (version->get<uint64_t>() != static_cast<uint64_t>(kMessageVersion))
    return refuse(
        Code::kUnsupported,
        fmt::format("field 'v' is {} and this server speaks version {} only: use the itifctl "
                    "that came with it",
                    version->get<uint64_t>(), kMessageVersion));

  for (const auto& [name, value] : message.items()) {
    if (name != "v" && name != "id" && name != "op" && name != "args")
      return refuse(Code::kInvalidArgument,
                    fmt::format("field '{}' is unknown: a request has v, id, op and args",
                                name.substr(0, 64)));
  }
  const auto op = message.find("op");
  if (op == message.end()) return refuse(Code::kInvalidArgument, "field 'op' is missing");
  if (!op->is_string()) return refuse(Code::kInvalidArgument, "field 'op' must be a string");
  const auto args = message.find("args");
  if (args != message.end() && !args->is_object())
    return refuse(Code::kInvalidArgument, "field 'args' must be an object");

  Request request;
  request.id = id;
  request.op = op->get<std::string>();
  if (args != message.end()) request.args = std::move(*args);
  return request;
}

// dump() frees its text whenever it grows. So the key is only put into the finished text.
std::string ok_message(const json& id, json result) {
  constexpr char kKeyField[] = "\"key\":\"";
  std::string key;
  const auto found = result.is_object() ? result.find("key") : result.end();
  if (result.is_object() && found != result.end() && found->is_string()) {
    auto& text = found->get_ref<std::string&>();
    if (std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c); })) {
      key.swap(text);
      text.assign(key.size(), '?');
    }
  }
  json message = envelope(id);
  message["ok"] = std::move(result);
  std::string text = dump(message);
  if (key.empty()) return text;
  const size_t at = text.find(kKeyField + std::string(key.size(), '?'));
  CHECK(at != std::string::npos);
  text.replace(at + sizeof kKeyField - 1, key.size(), key);
  wipe(std::as_writable_bytes(std::span(key)));
  return text;
}

std::string error_message(const json& id, const Error& error) {
  json message = envelope(id);
  message["error"] = {{"code", code_name(error.code)}, {"message", error.message}};
  return dump(message);
}

std::string progress_message(const json& id, const std::string& stage, double fraction) {
  json message = envelope(id);
  // The comparison is false for a NaN, which JSON cannot carry.
  message["progress"] = {{"stage", stage},
                         {"fraction", fraction > 0 ? std::min(fraction, 1.0) : 0.0}};
  return dump(message);
}

Code parse_code(std::string_view name) {
  for (const Code code : {Code::kInvalidArgument, Code::kNotFound, Code::kAlreadyExists,
                          Code::kPermission, Code::kResourceExhausted, Code::kUnavailable,
                          Code::kUnsupported, Code::kCorrupt, Code::kInternal}) {
    if (name == code_name(code)) return code;
  }
  return Code::kInternal;
}

}  // namespace itif::control
