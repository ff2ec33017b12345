// The envelope of a control message: JSON, one frame, UTF-8. docs/control.md specifies it.
//
//   request  = {"v":1, "id":ID, "op":NAME, "args":{…}}     args is optional
//   progress = {"v":1, "id":ID, "progress":{"stage":TEXT, "fraction":0…1}}
//   answer   = {"v":1, "id":ID, "ok":{…}} | {"v":1, "id":ID, "error":{"code":NAME, "message":TEXT}}
//   event    = {"v":1, "event":NAME, "unix_ns":N, …}
//
// The client chooses ID: a string of up to 64 bytes or an unsigned integer. Answers repeat it, or
// have null if the request's ID could not be read.
#pragma once

#include <cstddef>
#include <expected>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace itif::control {

constexpr int kMessageVersion = 1;
constexpr size_t kMaxRequestBytes = 64 * 1024;
// libzmq drops the connection of a peer that sends a frame longer than this.
constexpr size_t kMaxFrameBytes = 1024 * 1024;
constexpr int kMaxDepth = 16;

struct Request {
  nlohmann::json id;
  std::string op;
  nlohmann::json args = nlohmann::json::object();
};

struct Refusal {
  nlohmann::json id;
  Error error;
};

// Safe on any bytes; the error names the field.
std::expected<Request, Refusal> parse_request(std::string_view bytes);

// A tenant's key, "key" of the result, is in no memory that this frees.
std::string ok_message(const nlohmann::json& id, nlohmann::json result);
std::string error_message(const nlohmann::json& id, const Error& error);
std::string progress_message(const nlohmann::json& id, const std::string& stage, double fraction);

// Returns the code of that name; kInternal if the name is unknown.
Code parse_code(std::string_view name);

}  // namespace itif::control
