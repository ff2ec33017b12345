#include "serving/handover_channel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <thread>

namespace itif::serving::test {
namespace {

using nlohmann::json;

Inheritance example() {
  Inheritance inheritance;
  inheritance.file_prefix = "itif";
  inheritance.has_hugepages = true;
  inheritance.failed_tenants = {3, 5};
  inheritance.failed_canaries = {7};
  inheritance.device = "cuda";
  InheritedPort& port = inheritance.ports.emplace_back();
  port.device = "net_memif0";
  port.num_queues = 2;
  port.mtu = 9000;
  port.info.driver = "net_memif";
  port.info.mac = {2, 0, 0, 0, 0, 1};
  port.info.tx_offloads.udp_checksum = true;
  return inheritance;
}

struct Pair {
  Pair() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    a = std::make_unique<HandoverChannel>(control::Descriptor(sockets[0]));
    b = std::make_unique<HandoverChannel>(control::Descriptor(sockets[1]));
  }
  std::unique_ptr<HandoverChannel> a, b;
};

TEST(HandoverChannel, CarriesTheInheritance) {
  Pair pair;
  const Inheritance sent = example();
  ASSERT_TRUE(pair.a->send("hello", to_json(sent)));
  const auto received = pair.b->receive(1000);
  ASSERT_EQ(received.step(), "hello");
  const auto got = inheritance_from(received.message);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(to_json(*got), to_json(sent));
}

// More than any socket buffer holds.
TEST(HandoverChannel, CarriesLongMessages) {
  Pair pair;
  Inheritance sent = example();
  for (uint32_t id = 0; id < 1'000'000; ++id) sent.failed_tenants.push_back(id);
  std::thread sender([&] { EXPECT_TRUE(pair.a->send("hello", to_json(sent))); });
  const auto received = pair.b->receive(10'000);
  sender.join();
  ASSERT_EQ(received.step(), "hello");
  const auto got = inheritance_from(received.message);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->failed_tenants, sent.failed_tenants);
  ASSERT_TRUE(pair.a->send("open"));
  EXPECT_EQ(pair.b->receive(1000).step(), "open");
}

// Earlier versions send up to 64 KiB as one packet.
TEST(HandoverChannel, ReceivesLongPackets) {
  Pair pair;
  Inheritance sent = example();
  for (uint32_t id = 0; id < 10'000; ++id) sent.failed_tenants.push_back(id);
  json message = to_json(sent);
  message["step"] = "hello";
  const std::string packet = message.dump();
  ASSERT_GT(packet.size(), 40'000u);
  ASSERT_LT(packet.size(), 65'536u);
  ASSERT_EQ(::send(pair.a->descriptor(), packet.data(), packet.size(), 0),
            static_cast<ssize_t>(packet.size()));
  const auto received = pair.b->receive(1000);
  ASSERT_EQ(received.step(), "hello");
  const auto got = inheritance_from(received.message);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->failed_tenants, sent.failed_tenants);
}

TEST(HandoverChannel, RefusesMessagesBeyondTheLimitAndReceivesTheNext) {
  Pair pair;
  const json fields = {{"text", std::string(HandoverChannel::kMaxMessageBytes, 'x')}};
  std::thread sender([&] {
    EXPECT_TRUE(pair.a->send("hello", fields));
    EXPECT_TRUE(pair.a->send("open"));
  });
  const auto received = pair.b->receive(10'000);
  const auto next = pair.b->receive(10'000);
  sender.join();
  EXPECT_TRUE(received.message.is_null());
  EXPECT_FALSE(received.ended);
  EXPECT_GT(received.too_long_bytes, HandoverChannel::kMaxMessageBytes);
  const Error error = too_long(received, "hello");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_NE(error.message.find(fmt::format("'hello' has {} bytes", received.too_long_bytes)),
            std::string::npos)
      << error.message;
  EXPECT_NE(error.message.find("67108864 at most"), std::string::npos) << error.message;
  EXPECT_EQ(next.step(), "open");
  EXPECT_EQ(next.too_long_bytes, 0u);
}

// A program that reads nothing must not stop the old process.
TEST(HandoverChannel, GivesUpSending) {
  Pair pair;
  const json long_fields = {{"text", std::string(10 << 20, 'x')}};
  int asked = 0;
  EXPECT_FALSE(pair.a->send("hello", long_fields, [&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
  pair.b.reset();
  EXPECT_FALSE(pair.a->send("hello", long_fields));
}

TEST(HandoverChannel, NoticesTheEndOfTheOtherProcess) {
  Pair pair;
  EXPECT_FALSE(pair.a->has_ended());
  EXPECT_FALSE(pair.a->receive(0).ended);
  pair.b->send("loaded");
  EXPECT_FALSE(pair.a->has_ended());
  pair.b.reset();
  EXPECT_EQ(pair.a->receive(1000).step(), "loaded") << "what it said before is not lost";
  EXPECT_TRUE(pair.a->has_ended());
  EXPECT_TRUE(pair.a->receive(1000).ended);
  EXPECT_FALSE(pair.a->send("open"));
}

TEST(HandoverChannel, SkipsGarbage) {
  Pair pair;
  ASSERT_EQ(::send(pair.a->descriptor(), "{broken", 7, 0), 7);
  ASSERT_EQ(::send(pair.a->descriptor(), "[1]", 3, 0), 3);
  EXPECT_EQ(pair.b->receive(100).step(), "");
  EXPECT_EQ(pair.b->receive(100).step(), "");
  ASSERT_EQ(::send(pair.a->descriptor(), "+{", 2, 0), 2);
  ASSERT_EQ(::send(pair.a->descriptor(), ".broken", 7, 0), 7);
  EXPECT_EQ(pair.b->receive(100).step(), "");
  EXPECT_FALSE(pair.b->receive(0).ended);
  pair.a->send("open");
  EXPECT_EQ(pair.b->receive(100).step(), "open");
}

// Found by fuzz_handover: a step that is no text threw an exception.
TEST(HandoverChannel, TakesFieldsOfWrongTypesAsMissing) {
  Pair pair;
  for (const char* packet :
       {R"({"step":3,"message":"m"})", R"({"step":null})", R"({"step":["open"]})"}) {
    ASSERT_GT(::send(pair.a->descriptor(), packet, std::strlen(packet), 0), 0);
    const auto received = pair.b->receive(100);
    EXPECT_TRUE(received.message.is_object());
    EXPECT_EQ(received.step(), "");
    EXPECT_EQ(received.text("step", "none"), "none");
  }
}

TEST(HandoverChannel, RefusesIncompleteInheritances) {
  const json whole = to_json(example());
  for (const auto& [name, value] : whole.items()) {
    json less = whole;
    less.erase(name);
    const bool is_new = name == "device" || name == "failed_canaries";
    EXPECT_EQ(inheritance_from(less).has_value(), is_new) << name << ": earlier versions lack some";
    less[name] = json::object();
    EXPECT_FALSE(inheritance_from(less)) << name;
  }
  json other = whole;
  other["version"] = 3;
  EXPECT_EQ(inheritance_from(other).error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace itif::serving::test
