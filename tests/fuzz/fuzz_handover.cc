// The packets that the other process of a handover sends.
//
//   input = { u16: the packet's bytes (little-endian); packet }*
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "input.h"
#include "serving/handover_channel.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace itif;
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  serving::HandoverChannel channel{control::Descriptor(ends[0])};
  control::Descriptor other(ends[1]);
  fuzz::Input input(data, size);
  // A packet without bytes would look like the end.
  for (int packets = 0; !input.empty() && packets < 64; ++packets) {
    const auto packet = input.bytes(input.u16());
    if (packet.empty()) continue;
    if (send(other.get(), packet.data(), packet.size(), MSG_DONTWAIT) < 0) break;  // no room
  }
  { const control::Descriptor closed = std::move(other); }
  for (;;) {
    const auto received = channel.receive(0);
    if (received.ended) break;
    CHECK(received.message.is_null() || received.message.is_object());
    (void)received.step();
    const auto inheritance = serving::inheritance_from(received.message);
    if (!inheritance) {
      CHECK(!inheritance.error().message.empty());
      continue;
    }
    // A message that was understood can be sent on.
    nlohmann::json again = serving::to_json(*inheritance);
    CHECK(serving::inheritance_from(again).has_value());
  }
  return 0;
}
