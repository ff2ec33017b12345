// The messages between itifd, the checker of models, and a child that parses a model.
//
//   input = u8: who sent the rest
//     0  itifd, to the checker: u8: with a descriptor; the packet
//     1  a child, to its supervisor: u16: its status (as of waitpid()); u8: in time; its output
//     2  the checker, to itifd: the answer
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "input.h"
#include "serving/child_output.h"
#include "serving/model_check_wire.h"

namespace {

using namespace itif;
using namespace itif::serving;

constexpr SandboxLimits kLimits{.memory_bytes = 64 << 20, .time_ns = 10'000'000'000};
constexpr size_t kMaxMessage = 4096;

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The message goes to the log, to events, and in an answer of JSON to itifctl.
void check_message(const Error& error) {
  CHECK(!error.message.empty());
  CHECK(nlohmann::json(error.message).dump().size() > 2);  // throws if it is not UTF-8
  for (const char c : error.message) CHECK(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

void check_answer(const std::string& answer) {
  const Status status = parse_answer(answer, "/models/one");
  if (status) return;
  check_message(status.error());
  CHECK(status.error().message.size() <= kMaxMessage);
  // An answer that was understood can be sent on, and means the same.
  const Status again = parse_answer(answer_for(status), "/models/one");
  CHECK(!again && again.error().code == status.error().code);
  CHECK(again.error().message == status.error().message);
}

void receive_packet(bool with_descriptor, std::span<const std::byte> packet) {
  if (packet.empty()) return;  // would look like the end
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const control::Descriptor ours(ends[0]), theirs(ends[1]);
  const std::string sent = text(packet);
  if (with_descriptor) {
    CHECK(send_request(ours.get(), sent, ours.get()));
  } else {
    CHECK(send(ours.get(), sent.data(), sent.size(), 0) == static_cast<ssize_t>(sent.size()));
  }
  const auto received = receive_request(theirs.get());
  CHECK(received.has_value() && static_cast<bool>(received->answers) == with_descriptor);
  CHECK(received->text == sent.substr(0, kMaxCheckBytes));
  const auto model = parse_request(received->text);
  if (!model) {
    check_answer(answer_for(std::unexpected(model.error())));
    return;
  }
  const auto again = parse_request(request_for(*model));
  CHECK(again.has_value() && again->files.directory == model->files.directory);
  CHECK(again->files.base == model->files.base);
  CHECK(again->limits.memory_bytes == model->limits.memory_bytes);
  CHECK(again->limits.time_ns == model->limits.time_ns);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  switch (input.u8() % 3) {
    case 0: {
      const bool with_descriptor = input.u8() % 2 == 1;
      receive_packet(with_descriptor, input.bytes(size));
      break;
    }
    case 1: {
      const int status = input.u16();
      const bool in_time = input.u8() % 2 == 1;
      const auto output = text_of_child(text(input.bytes(size)), status, in_time, kLimits);
      if (output) {
        check_answer(*output);
      } else {
        check_message(output.error());
        check_answer(answer_for(std::unexpected(output.error())));
      }
      break;
    }
    case 2: check_answer(text(input.bytes(size))); break;
  }
  return 0;
}
