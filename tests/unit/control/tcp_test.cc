// Control over TCP requires CURVE. Tests use loopback and ports chosen by the kernel.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <zmq.hpp>

#include "control/curve.h"
#include "control/hex.h"
#include "server_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;
using Kind = CallError::Kind;

// Returns a port that was free a moment ago.
uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

std::string hex_of(const CurvePublicKey& key) {
  return to_hex(std::as_bytes(std::span(key)));
}

class TcpTest : public ServerFixture {
 protected:
  TcpTest() {
    options_.tcp_endpoint = "tcp://127.0.0.1:" + std::to_string(free_port());
    options_.curve_secret_file = dir_ / "server.key";
    options_.authorized_keys_file = dir_ / "authorized_keys";
    EXPECT_TRUE(write_key_pair(options_.curve_secret_file, "server", server_keys_));
    authorize({client_keys_.public_key});
  }
  void authorize(const std::vector<CurvePublicKey>& keys) {
    std::ofstream file(options_.authorized_keys_file);
    file << "# who may\n\n";
    for (const CurvePublicKey& key : keys) file << hex_of(key) << " somebody at work\n";
    file.close();
    ::chmod(options_.authorized_keys_file.c_str(), 0644);
  }
  std::expected<std::unique_ptr<Client>, CallError> connect(const CurvePublicKey& server_key,
                                                            const CurveKeyPair& client_key) {
    return Client::connect({.endpoint = options_.tcp_endpoint,
                            .server_key = server_key,
                            .client_key = client_key,
                            .connect_timeout_ns = 2'000'000'000},
                           system_clock_);
  }

  CurveKeyPair server_keys_ = make_curve_key_pair();
  CurveKeyPair client_keys_ = make_curve_key_pair();
};

TEST_F(TcpTest, AnAuthorisedClientIsServed) {
  start();
  auto client = connect(server_keys_.public_key, client_keys_);
  ASSERT_TRUE(client) << client.error().error.message;
  int num_steps = 0;
  auto added = (*client)->call("tenant.add", {{"name", "a"}, {"model_dir", "/m"}}, kTestTimeoutNs,
                               [&](const std::string&, double) { ++num_steps; });
  ASSERT_TRUE(added) << added.error().error.message;
  EXPECT_GT(num_steps, 1);
  EXPECT_EQ(ok("tenant.list")["tenants"].size(), 1u);  // over ipc
}

TEST_F(TcpTest, UnknownKeyGetsNoAnswer) {
  start();
  auto client = connect(server_keys_.public_key, make_curve_key_pair());
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().error.code, Code::kPermission) << client.error().error.message;
  EXPECT_NE(client.error().error.message.find("authorised"), std::string::npos)
      << client.error().error.message;
  EXPECT_EQ(ok("health")["status"], "ok");
}

TEST_F(TcpTest, WrongServerKeyIsDetected) {
  start();
  auto client = connect(make_curve_key_pair().public_key, client_keys_);
  ASSERT_FALSE(client);
  EXPECT_NE(client.error().error.message.find("public key"), std::string::npos)
      << client.error().error.message;
}

TEST_F(TcpTest, PlainZeroMqGetsNoAnswer) {
  start();
  zmq::context_t context(1);
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::rcvtimeo, 700);
  dealer.connect(options_.tcp_endpoint);
  const std::string request = R"({"v":1,"id":1,"op":"drain"})";
  dealer.send(zmq::buffer(request), zmq::send_flags::none);
  zmq::message_t frame;
  EXPECT_FALSE(dealer.recv(frame));
  EXPECT_TRUE(appliance_->calls.empty());
}

TEST_F(TcpTest, KeyFileChangesApplyToNewConnections) {
  authorize({});
  start();
  EXPECT_FALSE(connect(server_keys_.public_key, client_keys_));
  authorize({make_curve_key_pair().public_key, client_keys_.public_key});
  EXPECT_TRUE(connect(server_keys_.public_key, client_keys_));
  authorize({});
  EXPECT_FALSE(connect(server_keys_.public_key, client_keys_));
  ::unlink(options_.authorized_keys_file.c_str());
  EXPECT_FALSE(connect(server_keys_.public_key, client_keys_));
}

TEST_F(TcpTest, WritableKeyFileAdmitsNoClient) {
  start();
  ::chmod(options_.authorized_keys_file.c_str(), 0666);
  EXPECT_FALSE(connect(server_keys_.public_key, client_keys_));
  server_.reset();
  EXPECT_EQ(open_error().code, Code::kPermission);
}

TEST_F(TcpTest, RequiresKeyFiles) {
  const ServerOptions good = options_;
  options_.curve_secret_file = "";
  EXPECT_NE(open_error().message.find("itifctl keygen"), std::string::npos);
  options_ = good;
  options_.authorized_keys_file = "";
  EXPECT_NE(open_error().message.find("itifctl keygen"), std::string::npos);
  options_ = good;
  options_.curve_secret_file = dir_ / "absent";
  EXPECT_EQ(open_error().code, Code::kNotFound);
  options_ = good;
  ::chmod(options_.curve_secret_file.c_str(), 0640);
  EXPECT_EQ(open_error().code, Code::kPermission);
  ::chmod(options_.curve_secret_file.c_str(), 0600);
  options_.tcp_endpoint = "ipc:///tmp/x";
  EXPECT_EQ(open_error().code, Code::kInvalidArgument);
  options_.tcp_endpoint = "tcp://nonsense";
  EXPECT_EQ(open_error().code, Code::kInvalidArgument);
}

TEST_F(TcpTest, ErrorNamesAPortInUse) {
  start();
  options_.endpoint = "ipc://" + (dir_ / "c2.sock");
  options_.events_endpoint = "";
  options_.state_dir = dir_ / "state2";
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_NE(error.message.find(options_.tcp_endpoint), std::string::npos) << error.message;
}

TEST_F(TcpTest, ClientsSayWhatToDoWithoutAnAnswer) {
  auto client = connect(server_keys_.public_key, client_keys_);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, Kind::kUnreachable);
  EXPECT_NE(client.error().error.message.find("nobody answers"), std::string::npos)
      << client.error().error.message;
  auto keyless = Client::connect({.endpoint = options_.tcp_endpoint}, system_clock_);
  ASSERT_FALSE(keyless);
  EXPECT_NE(keyless.error().error.message.find("keygen"), std::string::npos);
}

TEST(Curve, KeyFiles) {
  TempDir dir;
  const CurveKeyPair pair = make_curve_key_pair();
  const std::string path = dir / "k";
  ASSERT_TRUE(write_key_pair(path, "alice at work", pair));
  EXPECT_EQ(write_key_pair(path, "again", pair).error().code, Code::kAlreadyExists);
  struct stat info {};
  ::stat(path.c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0600u);

  const auto read = read_key_pair(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->public_key, pair.public_key);
  EXPECT_EQ(read->secret_key, pair.secret_key);
  EXPECT_EQ(*parse_public_key(path + ".pub"), pair.public_key);
  EXPECT_EQ(*parse_public_key(hex_of(pair.public_key)), pair.public_key);
  EXPECT_FALSE(parse_public_key(hex_of(pair.public_key).substr(1)));
  EXPECT_FALSE(parse_public_key(""));
  const auto authorized = read_authorized_keys(path + ".pub");
  ASSERT_TRUE(authorized) << authorized.error().message;
  ASSERT_EQ(authorized->size(), 1u);
  EXPECT_EQ(authorized->at(0).name, "alice at work");
}

TEST(Curve, DamagedKeyFilesAreRefused) {
  TempDir dir;
  const CurveKeyPair pair = make_curve_key_pair(), other = make_curve_key_pair();
  const std::string secret = to_hex(std::as_bytes(std::span(pair.secret_key)));
  const std::string path = dir / "k";
  for (const std::string& text :
       {std::string(), "public " + hex_of(pair.public_key) + "\n", "secret " + secret + "\n",
        "public " + hex_of(other.public_key) + "\nsecret " + secret + "\n",
        "public " + hex_of(pair.public_key) + "\nsecret " + secret + "00\n",
        "public " + hex_of(pair.public_key) + "\nsecret " + secret + "\njunk\n",
        std::string("\0\xff\x01", 3)}) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0600);
    const auto read = read_key_pair(path);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, Code::kCorrupt) << read.error().message;
  }
  std::ofstream(path) << hex_of(pair.public_key) << " ok\nnot-a-key\n";
  const auto authorized = read_authorized_keys(path);
  ASSERT_FALSE(authorized);
  EXPECT_NE(authorized.error().message.find(":2:"), std::string::npos)
      << authorized.error().message;
}

}  // namespace
}  // namespace itif::control
