// Real sockets over the loopback interface: the server model on a UDP socket, in a thread.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "client/client.h"
#include "tests/unit/client/server_model.h"

namespace itif::client::test {
namespace {

Credential credential() {
  Credential c{.tenant_id = 5, .key_epoch = 3, .auth = wire::Auth::kFull};
  for (size_t i = 0; i < c.key.size(); ++i) c.key[i] = static_cast<std::byte>(i);
  return c;
}

// Identifies a flow by the client's source port.
class LoopbackServer {
 public:
  explicit LoopbackServer(bool ipv6, ServerOptions options = {})
      : model_(
            clock_, [this](uint32_t flow, Bytes bytes) { send(flow, bytes); }, options) {
    model_.add_tenant(credential());
    fd_ = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_storage address{};
    if (ipv6) {
      auto& a = reinterpret_cast<sockaddr_in6&>(address);
      a.sin6_family = AF_INET6;
      a.sin6_addr = in6addr_loopback;
    } else {
      auto& a = reinterpret_cast<sockaddr_in&>(address);
      a.sin_family = AF_INET;
      a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    socklen_t bytes = ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), bytes) != 0) return;
    bytes = sizeof(address);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes);
    port = ntohs(ipv6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                      : reinterpret_cast<sockaddr_in&>(address).sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~LoopbackServer() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    close(fd_);
  }

  uint16_t port = 0;                                    // 0: the machine lacks this address family
  size_t num_clients() const { return peers_.size(); }  // after the thread has ended
  void stop() {
    stop_ = true;
    thread_.join();
  }

 private:
  void run() {
    while (!stop_) {
      pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
      poll(&entry, 1, 1);
      Bytes bytes(9216);
      sockaddr_storage from{};
      socklen_t from_bytes = sizeof(from);
      ssize_t got;
      while ((got = recvfrom(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT,
                             reinterpret_cast<sockaddr*>(&from), &from_bytes)) >= 0) {
        const uint32_t flow =
            ntohs(from.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(from).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(from).sin_port);
        peers_[flow] = {from, from_bytes};
        model_.on_datagram(flow, Bytes(bytes.begin(), bytes.begin() + got));
        from_bytes = sizeof(from);
      }
      model_.poll();
    }
  }
  void send(uint32_t flow, const Bytes& bytes) {
    const auto& [address, address_bytes] = peers_[flow];
    (void)sendto(fd_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&address),
                 address_bytes);
  }

  SystemClock clock_;
  ServerModel model_;
  int fd_ = -1;
  std::map<uint32_t, std::pair<sockaddr_storage, socklen_t>> peers_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void ask(const char* address, bool ipv6) {
  LoopbackServer server(ipv6);
  if (server.port == 0) GTEST_SKIP() << "no address " << address << " here";
  SystemClock clock;
  auto client = BlockingClient::connect(clock, {.server = address, .port = server.port});
  ASSERT_TRUE(client) << client.error().message;
  for (const uint32_t size : {0u, 100u, 200'000u}) {
    const Order order{.seed = 7 + size, .response_bytes = size, .service_us = 300};
    const Bytes payload = make_payload(order, size);
    const auto answer = (*client)->infer(credential(), {.payload = payload}, 20'000'000'000);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->status, wire::StatusCode::kOk);
    EXPECT_EQ(answer->result, make_response(order));
    EXPECT_GT(answer->latency_ns, 300'000u);
  }
  const Order refuse{.seed = 1, .status = static_cast<uint32_t>(wire::StatusCode::kTooLong)};
  const Bytes payload = make_payload(refuse, 64);
  const auto answer = (*client)->infer(credential(), {.payload = payload}, 20'000'000'000);
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->status, wire::StatusCode::kTooLong);
  EXPECT_EQ(answer->detail, "because");
}

TEST(Sockets, BlockingClientOverIpv4) {
  ask("127.0.0.1", false);
}
TEST(Sockets, BlockingClientOverIpv6) {
  ask("::1", true);
}

// Forging an unauthenticated answer requires the request id.
TEST(Sockets, RequestIdsOfABlockingClientAreHardToGuess) {
  const int listener = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t address_bytes = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &address_bytes);
  SystemClock clock;
  std::set<uint64_t> ids;
  for (int i = 0; i < 8; ++i) {
    auto client = BlockingClient::connect(
        clock, {.server = "127.0.0.1", .port = ntohs(address.sin_port)}, {.session = 1});
    ASSERT_TRUE(client) << client.error().message;
    const Bytes payload(4);
    EXPECT_FALSE((*client)->infer(credential(), {.payload = payload}, 2'000'000));
    Bytes bytes(2048);
    const ssize_t got = recv(listener, bytes.data(), bytes.size(), 0);
    ASSERT_GT(got, 0);
    wire::Datagram datagram;
    ASSERT_EQ(wire::parse(std::span(bytes).first(static_cast<size_t>(got)), datagram),
              wire::ParseError::kNone);
    ids.insert(datagram.header.request_id >> 32);
    while (recv(listener, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
  close(listener);
  EXPECT_EQ(ids.size(), 8u);
}

TEST(Sockets, ErrorSaysThatNobodyListens) {
  SystemClock clock;
  uint16_t port;
  {
    LoopbackServer gone(false);
    port = gone.port;
  }
  auto client = BlockingClient::connect(clock, {.server = "127.0.0.1", .port = port});
  ASSERT_TRUE(client);
  const Bytes payload(10);
  for (int call = 0; call < 2; ++call) {
    // It does not wait for the timeout, else the message would be another.
    const auto answer = (*client)->infer(credential(), {.payload = payload}, 20'000'000'000);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::kUnavailable);
    EXPECT_NE(answer.error().message.find("start itifd"), std::string::npos)
        << answer.error().message;
  }
}

// A port of the loopback interface on which nobody listens.
uint16_t closed_port(bool ipv6 = false) {
  return LoopbackServer(ipv6).port;
}

void send_small(SocketTransport& transport) {
  const Bytes small(10);
  const Outgoing batch[] = {{.head = small, .body = {}}};
  EXPECT_EQ(transport.send(0, batch), 1u);
}

// Waits for the error of a datagram that nobody takes. Returns true if it came.
bool is_reported(SocketTransport& transport) {
  std::array<Incoming, 4> none;
  for (int i = 0; i < 100 && !transport.unreachable(); ++i) {
    transport.wait(20'000'000);
    EXPECT_EQ(transport.receive(none), 0u);
  }
  return transport.unreachable().has_value();
}

TEST(Sockets, AClosedPortIsReportedAtOnce) {
  for (const bool ipv6 : {false, true}) {
    const uint16_t port = closed_port(ipv6);
    if (port == 0) continue;  // the machine lacks this address family
    auto transport = SocketTransport::connect({.server = ipv6 ? "::1" : "127.0.0.1", .port = port});
    ASSERT_TRUE(transport) << transport.error().message;
    EXPECT_FALSE((*transport)->unreachable());
    send_small(**transport);
    ASSERT_TRUE(is_reported(**transport));
    const Error why = *(*transport)->unreachable();
    EXPECT_EQ(why.code, Code::kUnavailable);
    EXPECT_NE(why.message.find("nobody listens on"), std::string::npos) << why.message;
    EXPECT_NE(why.message.find(std::to_string(port)), std::string::npos) << why.message;
    // The error is taken from the socket: the next wait lasts.
    SystemClock clock;
    const uint64_t start_ns = clock.now_ns();
    (*transport)->wait(50'000'000);
    EXPECT_GT(clock.now_ns() - start_ns, 30'000'000u);
  }
}

// A server that restarts is not given up.
TEST(Sockets, AServerThatHasAnsweredIsNotUnreachable) {
  SystemClock clock;
  auto server = std::make_unique<LoopbackServer>(false);
  auto transport = SocketTransport::connect({.server = "127.0.0.1", .port = server->port});
  ASSERT_TRUE(transport);
  struct Sink final : OutcomeSink {
    void on_outcomes(std::span<const Outcome> outcomes) noexcept override {
      answered += outcomes.size();
    }
    size_t answered = 0;
  } sink;
  auto engine = ClientEngine::create(clock, **transport, sink, {.session = 1});
  ASSERT_TRUE(engine);
  const Bytes payload = make_payload({.seed = 1, .response_bytes = 50}, 100);
  ASSERT_EQ((*engine)->submit({.credential = credential(), .payload = payload}), Submit::kAccepted);
  for (int i = 0; i < 2000 && sink.answered == 0; ++i)
    if ((*engine)->poll() == 0) (*transport)->wait(1'000'000);
  ASSERT_EQ(sink.answered, 1u);
  EXPECT_GE((*transport)->stats().received, 1u);
  server.reset();
  std::array<Incoming, 4> none;
  for (int i = 0; i < 100 && (*transport)->stats().unreachable == 0; ++i) {
    send_small(**transport);
    (*transport)->wait(20'000'000);
    (void)(*transport)->receive(none);
  }
  EXPECT_GT((*transport)->stats().unreachable, 0u);
  EXPECT_FALSE((*transport)->unreachable());
}

// The server answers the hello, and is silent about the request.
TEST(Sockets, ErrorWithoutAnswerMentionsTheKey) {
  LoopbackServer server(false);
  SystemClock clock;
  auto client = BlockingClient::connect(clock, {.server = "127.0.0.1", .port = server.port});
  ASSERT_TRUE(client);
  Credential wrong = credential();
  wrong.key[0] ^= std::byte{1};
  const Bytes payload(10);
  const auto answer = (*client)->infer(wrong, {.payload = payload}, 2'000'000'000);
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("does not answer strangers"), std::string::npos)
      << answer.error().message;
  EXPECT_NE(answer.error().message.find("key"), std::string::npos);
}

TEST(Sockets, BadAddressesAreNamed) {
  const auto message = [](const SocketOptions& options) {
    const auto transport = SocketTransport::connect(options);
    return transport ? std::string() : transport.error().message;
  };
  EXPECT_NE(message({.server = "no.such.host.invalid"}).find("no.such.host.invalid"),
            std::string::npos);
  EXPECT_NE(message({.server = "127.0.0.1", .port = 0}).find("port"), std::string::npos);
  EXPECT_NE(message({.server = "127.0.0.1", .num_flows = 0}).find("num_flows"), std::string::npos);
  EXPECT_NE(message({.server = "127.0.0.1", .local = "198.51.100.77"}).find("198.51.100.77"),
            std::string::npos);
}

TEST(Sockets, EngineOverManyFlowsAnswersEveryRequest) {
  LoopbackServer server(false);
  SystemClock clock;
  auto transport =
      SocketTransport::connect({.server = "127.0.0.1", .port = server.port, .num_flows = 4});
  ASSERT_TRUE(transport) << transport.error().message;
  EXPECT_GE((*transport)->receive_buffer_bytes(), 100'000u);
  struct Sink final : OutcomeSink {
    void on_outcomes(std::span<const Outcome> outcomes) noexcept override {
      for (const Outcome& outcome : outcomes)
        answered += outcome.kind == OutcomeKind::kAnswered && outcome.result.size() == 50;
    }
    int answered = 0;
  } sink;
  auto engine = ClientEngine::create(clock, **transport, sink, {.session = 1});
  ASSERT_TRUE(engine);
  std::vector<Bytes> payloads;
  for (uint32_t i = 0; i < 500; ++i)
    payloads.push_back(make_payload({.seed = i, .response_bytes = 50}, 3000));
  size_t next = 0;
  while (next < payloads.size() || (*engine)->in_flight() > 0) {
    while (next < payloads.size() && (*engine)->in_flight() < 32)
      ASSERT_EQ((*engine)->submit({.credential = credential(), .payload = payloads[next++]}),
                Submit::kAccepted);
    if ((*engine)->poll() == 0) (*transport)->wait(1'000'000);
  }
  EXPECT_EQ(sink.answered, 500);
  server.stop();
  EXPECT_EQ(server.num_clients(), 4u);
}

// A datagram beyond 64 KiB fails with EMSGSIZE, as one above the path MTU does.
TEST(Sockets, DatagramsThatAreTooBigAreCounted) {
  auto transport = SocketTransport::connect({.server = "127.0.0.1", .port = 9});
  ASSERT_TRUE(transport);
  const Bytes large(70'000), small(10);
  const Outgoing batch[] = {{.head = small, .body = {}}, {.head = large, .body = {}}};
  EXPECT_EQ((*transport)->send(0, batch), 2u);
  EXPECT_EQ((*transport)->stats().too_big, 1u);
}

// A server whose datagrams nobody receives: the kernel drops those that find the buffer full.
TEST(SocketTransport, CountsTheDatagramsThatItsBufferHasNoRoomFor) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  const auto transport =
      SocketTransport::connect(
          {.server = "127.0.0.1", .port = ntohs(address.sin_port), .receive_buffer_bytes = 4096})
          .value();
  const SocketAddresses ends = transport->addresses(0);
  EXPECT_EQ(ends.ip_version, 4);
  EXPECT_EQ(ends.server_port, ntohs(address.sin_port));
  EXPECT_EQ(ends.local_port, transport->local_port(0));
  EXPECT_EQ(ends.local, ends.server);
  EXPECT_EQ(ends.local[0], 127);
  EXPECT_EQ(transport->receive_drops(), 0u);
  address.sin_port = htons(ends.local_port);
  constexpr uint64_t kDatagrams = 200;
  const Bytes datagram(1000);
  for (uint64_t i = 0; i < kDatagrams; ++i)
    ASSERT_EQ(sendto(fd, datagram.data(), datagram.size(), 0,
                     reinterpret_cast<const sockaddr*>(&address), sizeof address),
              1000);
  close(fd);
  std::array<Incoming, 64> incoming;
  uint64_t received = 0;
  for (size_t count; (count = transport->receive(incoming)) > 0;) received += count;
  EXPECT_LT(received, kDatagrams);
  EXPECT_EQ(transport->receive_drops(), kDatagrams - received);
}

}  // namespace
}  // namespace itif::client::test
