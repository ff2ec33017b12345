#include "base/log_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace itif::log {
namespace {

class LogOutputTest : public ::testing::Test {
 protected:
  LogOutputTest() { ::signal(SIGPIPE, SIG_IGN); }
};

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends.data()), 0); }
  ~Pipe() {
    for (const int fd : ends)
      if (fd >= 0) ::close(fd);
  }
  void close_reader() {
    ::close(ends[0]);
    ends[0] = -1;
  }
  // Reads what is there.
  std::string take() const {
    std::string all;
    std::array<char, 65536> bytes;
    pollfd ready{.fd = ends[0], .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, 0) == 1) {
      const ssize_t got = ::read(ends[0], bytes.data(), bytes.size());
      if (got <= 0) break;
      all.append(bytes.data(), static_cast<size_t>(got));
    }
    return all;
  }
  std::array<int, 2> ends{-1, -1};
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Writes numbered lines until one is lost. Returns how many were written.
int fill(LogOutput& output) {
  for (int i = 0; i < 1'000'000; ++i)
    if (!output.write("line " + std::to_string(i) + "\n")) return i;
  return -1;
}

TEST_F(LogOutputTest, APipeThatNobodyReadsLosesTextAndDoesNotWait) {
  const Pipe pipe;
  LogOutput output(pipe.ends[1]);
  const int written = fill(output);
  ASSERT_GT(written, 1000);
  EXPECT_FALSE(output.write("a line that is lost\n"));
  std::string expected;
  for (int i = 0; i < written; ++i) expected += "line " + std::to_string(i) + "\n";
  std::string got = pipe.take();
  EXPECT_TRUE(output.write("next\n")) << "the pipe is empty again";
  got += pipe.take();
  EXPECT_EQ(got, expected + "next\n") << "whole lines, in order";
}

TEST_F(LogOutputTest, ThePipeStaysBlockingForOthers) {
  const Pipe pipe;
  LogOutput output(pipe.ends[1]);
  EXPECT_TRUE(output.write("x\n"));
  EXPECT_EQ(::fcntl(pipe.ends[1], F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(LogOutputTest, AClosedPipeLosesText) {
  Pipe pipe;
  LogOutput output(pipe.ends[1]);
  pipe.close_reader();
  EXPECT_FALSE(output.write("lost\n"));
}

TEST_F(LogOutputTest, ASocketThatNobodyReadsLosesText) {
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  LogOutput output(ends[0]);
  EXPECT_GT(fill(output), 10);
  ::close(ends[1]);
  EXPECT_FALSE(output.write("lost\n"));
  ::close(ends[0]);
}

TEST_F(LogOutputTest, AClosedDescriptorLosesText) {
  EXPECT_FALSE(LogOutput(999).write("lost\n"));
}

TEST_F(LogOutputTest, AFullDiskLosesText) {
  const int full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  EXPECT_FALSE(LogOutput(full).write("lost\n"));
  ::close(full);
}

TEST_F(LogOutputTest, AFileIsAppendedTo) {
  const std::string path = ::testing::TempDir() + "log_output_test.log";
  std::filesystem::remove(path);
  for (const char* const line : {"one\n", "two\n"}) {
    auto output = LogOutput::open_file(path);
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_TRUE(output->write(line));
  }
  EXPECT_EQ(text_of(path), "one\ntwo\n");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 037, 0u) << "others cannot read it";
  std::filesystem::remove(path);
}

TEST_F(LogOutputTest, AFileThatCannotBeOpenedIsNamed) {
  const auto missing = LogOutput::open_file("/nonexistent/itifd.log");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
  EXPECT_NE(missing.error().message.find("/nonexistent/itifd.log"), std::string::npos);
  const auto directory = LogOutput::open_file("/tmp");
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, Code::kInvalidArgument);
}

TEST_F(LogOutputTest, ANamedPipeWithoutAReaderIsRefused) {
  const std::string path = ::testing::TempDir() + "log_output_test.fifo";
  ::unlink(path.c_str());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto opened = LogOutput::open_file(path);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::kInvalidArgument);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace itif::log
