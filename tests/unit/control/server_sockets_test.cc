// The server's endpoints: permissions, stale and busy sockets, errors that clients see.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "server_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

class ServerSocketsTest : public ServerFixture {};

TEST_F(ServerSocketsTest, StopsWithoutStart) {
  auto server = Server::open(options_, clock_);
  ASSERT_TRUE(server);
  (*server)->stop();
  server->reset();
  EXPECT_TRUE(Server::open(options_, clock_));
}

TEST_F(ServerSocketsTest, SocketsAreAccessibleToTheirOwnerOnly) {
  start();
  for (const char* name : {"control.sock", "events.sock"}) {
    struct stat info {};
    ASSERT_EQ(::stat((dir_ / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
  server_->stop();
  EXPECT_NE(::access((dir_ / "control.sock").c_str(), F_OK), 0)
      << "the socket file was left behind";
}

TEST_F(ServerSocketsTest, ReplacesASocketThatACrashLeft) {
  const std::string path = dir_ / "control.sock";
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(fd);  // the file stays
  start();
  EXPECT_EQ(ok("health")["status"], "ok");
}

TEST_F(ServerSocketsTest, KeepsTheSocketOfARunningServer) {
  start();
  options_.state_dir = dir_ / "other";
  const Error error = open_error();
  EXPECT_EQ(error.code, Code::kUnavailable);
  EXPECT_NE(error.message.find("busy"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("stop that one"), std::string::npos) << error.message;
  ok("health");
}

TEST_F(ServerSocketsTest, RefusesEndpointsThatOthersCouldUse) {
  for (const std::string& endpoint :
       {std::string("tcp://127.0.0.1:9010"), std::string("ipc://@abstract"), std::string("ipc://*"),
        std::string("ipc://relative.sock"), std::string("inproc://x"), std::string(""),
        "ipc:///" + std::string(200, 'x')}) {
    options_.endpoint = endpoint;
    EXPECT_EQ(open_error().code, Code::kInvalidArgument) << endpoint;
  }
  options_.endpoint = "ipc://" + (dir_ / "file");
  std::ofstream(dir_ / "file") << "precious";
  EXPECT_EQ(open_error().code, Code::kInvalidArgument);
  EXPECT_EQ(::access((dir_ / "file").c_str(), F_OK), 0);
}

TEST_F(ServerSocketsTest, WorksWithoutEvents) {
  options_.events_endpoint = "";
  start();
  add("a");
  EXPECT_EQ(ok("health")["events_endpoint"], "");
}

TEST_F(ServerSocketsTest, ClientsSayWhatToDoWhenThereIsNoServer) {
  auto absent = Client::connect({.endpoint = options_.endpoint}, system_clock_);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().kind, CallError::Kind::kUnreachable);
  EXPECT_NE(absent.error().error.message.find("start itifd"), std::string::npos);
  start();
  auto connected = client();
  server_->stop();
  const auto answer = connected->call("health", json::object(), kTestTimeoutNs);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().kind, CallError::Kind::kUnreachable) << answer.error().error.message;
}

TEST_F(ServerSocketsTest, CallAfterATimeoutGetsTheRightAnswer) {
  start();
  appliance_->close_gate();
  auto connected = client();
  const auto late =
      connected->call("tenant.add", {{"name", "slow"}, {"model_dir", "/m"}}, 100'000'000);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, CallError::Kind::kTimeout);
  appliance_->open_gate();
  const auto next = connected->call("tenant.pause", {{"tenant", "slow"}}, kTestTimeoutNs);
  ASSERT_TRUE(next) << next.error().error.message;
  EXPECT_EQ((*next)["tenant"]["state"], "paused");
}

}  // namespace
}  // namespace itif::control
