#include "serving/model_check_wire.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "control/message.h"
#include "json/json_file.h"

namespace itif::serving {
namespace {

using control::Descriptor;
using nlohmann::json;

constexpr size_t kMaxMessageBytes = 4096;

std::string text_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Shortens UTF-8 to at most `max` bytes, without a part of a character at its end.
void cut_utf8(std::string& text, size_t max) {
  if (text.size() <= max) return;
  while (max > 0 && (static_cast<unsigned char>(text[max]) & 0xc0) == 0x80) --max;
  text.resize(max);
}

}  // namespace

std::string request_for(const ModelToCheck& model) {
  return text_of({{"directory", model.files.directory},
                  {"base", model.files.base},
                  {"memory_bytes", model.limits.memory_bytes},
                  {"time_ns", model.limits.time_ns}});
}

Result<ModelToCheck> parse_request(const std::string& request) {
  ITIF_ASSIGN(const json parsed, json_file::parse_json_object(request, "request"));
  const auto member = [&](const char* key) {
    const auto found = parsed.find(key);
    return found == parsed.end() ? json() : *found;
  };
  const json directory = member("directory"), base = member("base");
  const json memory_bytes = member("memory_bytes"), time_ns = member("time_ns");
  if (!directory.is_string() || !base.is_string() || !memory_bytes.is_number_unsigned() ||
      !time_ns.is_number_unsigned())
    return fail(Code::kInvalidArgument,
                "the checker of models was asked without directory, base, memory_bytes or time_ns");
  return ModelToCheck{
      {directory.get<std::string>(), base.get<std::string>()},
      {.memory_bytes = memory_bytes.get<uint64_t>(), .time_ns = time_ns.get<uint64_t>()}};
}

std::string answer_for(const Status& done) {
  if (done) return text_of({{"ok", true}});
  return text_of({{"code", code_name(done.error().code)}, {"message", done.error().message}});
}

Status parse_answer(const std::string& answer, const std::string& directory) {
  const auto object = json_file::parse_json_object(answer, "answer");
  const auto text = [&](const char* key) {
    const auto found = object->find(key);
    return found != object->end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (object && object->size() == 1 && object->value("ok", json()) == true) return {};
  if (!object || text("code").empty() || text("message").empty())
    return fail(Code::kUnavailable,
                fmt::format("{}: the checker of models has ended before it answered: repeat the "
                            "request; if that does not help, restart itifd",
                            directory));
  std::string message = text("message");
  cut_utf8(message, kMaxMessageBytes);
  for (char& c : message)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  return fail(control::parse_code(text("code")), std::move(message));
}

bool send_request(int socket, const std::string& request, int answers) {
  iovec bytes{.iov_base = const_cast<char*>(request.data()), .iov_len = request.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof answers);
  std::memcpy(CMSG_DATA(header), &answers, sizeof answers);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(request.size());
}

std::optional<CheckRequest> receive_request(int socket) {
  CheckRequest request;
  request.text.resize(kMaxCheckBytes);
  iovec bytes{.iov_base = request.text.data(), .iov_len = request.text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  while ((got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
  if (got <= 0) return std::nullopt;
  request.text.resize(static_cast<size_t>(got));
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    request.answers = Descriptor(fd);
  }
  return request;
}

}  // namespace itif::serving
