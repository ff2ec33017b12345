// A control message from a client that may connect: its envelope, its operation, and the error
// answer, which must be valid JSON.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/check.h"
#include "control/message.h"
#include "control/operation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif::control;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto request = parse_request(bytes);
  if (!request) {
    const auto answer =
        nlohmann::json::parse(error_message(request.error().id, request.error().error));
    CHECK(answer.at("error").at("message").get<std::string>() != "");
    return 0;
  }
  CHECK(size <= kMaxRequestBytes);
  CHECK(request->args.is_object());
  const auto operation = parse_operation(request->op, request->args);
  if (!operation) {
    const auto answer = nlohmann::json::parse(error_message(request->id, operation.error()));
    CHECK(answer.at("id") == request->id);
    return 0;
  }
  CHECK(nlohmann::json::parse(ok_message(request->id, request->args)).at("id") == request->id);
  return 0;
}
