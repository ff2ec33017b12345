// Each test runs a function in a sandboxed child.
#include "serving/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <thread>
#include <vector>

namespace itif::serving {
namespace {

namespace fs = std::filesystem;

constexpr SandboxLimits kLimits{.memory_bytes = 256u << 20, .time_ns = 20'000'000'000};

class Sandbox : public ::testing::Test {
 protected:
  Sandbox() {
    std::string pattern = (fs::temp_directory_path() / "itif-sandbox-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    fs::create_directories(directory_ + "/model/1_Pooling");
    std::ofstream(directory_ + "/model/config.json") << "config";
    std::ofstream(directory_ + "/model/1_Pooling/config.json") << "pooling";
    std::ofstream(directory_ + "/blob") << "blob";
    std::ofstream(directory_ + "/secret") << "secret";
    fs::create_symlink("../blob", directory_ + "/model/weights");
  }
  ~Sandbox() override { fs::remove_all(directory_); }

  Result<std::string> run(const std::function<std::string()>& body,
                          const SandboxLimits& limits = kLimits) {
    return run_child(limits, [&] {
      const std::array<std::string, 1> allowed{directory_ + "/model"};
      const Status entered = enter_sandbox(limits, allowed);
      return entered ? body() : entered.error().message;
    });
  }
  std::string read(const std::string& name) {
    std::ifstream file(directory_ + "/" + name);
    return file ? std::string(std::istreambuf_iterator<char>(file), {}) : "refused";
  }
  void expect_error(const std::function<std::string()>& body, const std::string& says,
                    const SandboxLimits& limits = kLimits) {
    const auto result = run(body, limits);
    ASSERT_FALSE(result) << *result;
    EXPECT_EQ(result.error().code, Code::kCorrupt);
    EXPECT_NE(result.error().message.find(says), std::string::npos) << result.error().message;
  }

  std::string directory_;
};

TEST_F(Sandbox, ReadsFilesAndReturnsText) {
  EXPECT_EQ(run([&] { return read("model/config.json") + read("model/1_Pooling/config.json"); }),
            "configpooling");
  EXPECT_EQ(run([&] { return read("model/weights"); }), "blob") << "a link to a file elsewhere";
  EXPECT_EQ(run([&] { return read("model/absent"); }), "refused");
  EXPECT_EQ(run([&] {
              size_t count = 0;
              for (const auto& entry : fs::recursive_directory_iterator(directory_ + "/model"))
                count += entry.exists();
              return std::to_string(count);
            }),
            "4");
  EXPECT_EQ(run([] { return std::string(50'000, 'x'); })->size(), 50'000u);
  EXPECT_EQ(run([] { return ""; }), "");
}

TEST_F(Sandbox, ComputesAndAllocates) {
  EXPECT_EQ(run([] {
              std::vector<std::string> many;
              for (int i = 0; i < 100'000; ++i) many.push_back(std::string(100, 'x'));
              try {
                throw std::runtime_error("thrown");
              } catch (const std::exception& e) {
                return e.what() + std::to_string(many.size());
              }
            }),
            "thrown100000");
}

TEST_F(Sandbox, ReadsNoFileElsewhere) {
  if (::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) < 0)
    GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(run([&] { return read("secret"); }), "refused");
  EXPECT_EQ(run([&] { return read("model/../secret"); }), "refused");
  EXPECT_EQ(run([&] { return read("../../etc/passwd"); }), "refused");
}

TEST_F(Sandbox, OtherSystemCallsEndIt) {
  const std::string path = directory_ + "/model/config.json";
  const std::function<long()> calls[] = {
      [] { return long{::socket(AF_UNIX, SOCK_STREAM, 0)}; },
      [] { return long{::socket(AF_INET, SOCK_DGRAM, 0)}; },
      [] { return long{::fork()}; },
      [] { return ::syscall(SYS_execve, "/bin/true", nullptr, nullptr); },
      [&] { return long{::open(path.c_str(), O_WRONLY)}; },
      [&] { return long{::open(path.c_str(), O_RDWR)}; },
      [&] { return long{::open((path + "2").c_str(), O_RDONLY | O_CREAT, 0600)}; },
      [&] { return long{::open(path.c_str(), O_RDONLY | O_TRUNC)}; },
      [&] { return long{::open(directory_.c_str(), O_TMPFILE | O_WRONLY, 0600)}; },
      [&] { return long{::unlink(path.c_str())}; },
      [&] { return long{::rename(path.c_str(), "/tmp/x")}; },
      [&] { return long{::chmod(path.c_str(), 0777)}; },
      [] { return long{::kill(::getppid(), 0)}; },
      [] { return ::syscall(SYS_ptrace, 0, 0, 0, 0); },
      [] { return ::syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0); },
      [] {
        return ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                       MAP_FAILED
                   ? -1L
                   : 0L;
      },
      [] { return ::syscall(SYS_prctl, 0, 0, 0, 0, 0); },
      [] { return ::syscall(SYS_io_uring_setup, 1, nullptr); },
      [] { return ::syscall(SYS_dup2, 2, 1); },
      [] {
        std::thread([] {}).join();
        return 0L;
      }};
  for (size_t i = 0; i < std::size(calls); ++i) {
    SCOPED_TRACE(i);
    expect_error([&] { return std::to_string(calls[i]()); }, "system call");
  }
  EXPECT_EQ(read("model/config.json"), "config");
}

TEST_F(Sandbox, ACrashIsNamed) {
  expect_error(
      []() -> std::string {
        ::raise(SIGSEGV);
        return "";
      },
      "signal 11, Segmentation");
  expect_error([]() -> std::string { std::abort(); }, "signal 6, Aborted");
  expect_error([]() -> std::string { ::_exit(3); }, "ended with status 3");
  expect_error([]() -> std::string { ::_exit(0); }, "ended with status 0");
  expect_error(
      []() -> std::string {
        for (const char* line : {"first\n", "bad\x1b[31m count\n"})
          if (::write(STDERR_FILENO, line, std::strlen(line)) < 0) ::_exit(4);
        std::abort();
      },
      "Aborted) (bad?[31m count)");
}

TEST_F(Sandbox, TooMuchTimeIsNamed) {
  const SandboxLimits limits{.memory_bytes = 256u << 20, .time_ns = 300'000'000};
  expect_error(
      []() -> std::string {
        for (;;) ::usleep(1000);
      },
      "took longer than 300 ms", limits);
  expect_error(
      []() -> std::string {
        for (uint64_t i = 0;; ++i) asm volatile("" : "+r"(i));
      },
      "took longer than 300 ms", limits);
}

TEST_F(Sandbox, TooMuchMemoryIsRefused) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer needs all addresses";
#endif
  EXPECT_EQ(run([]() -> std::string {
              try {
                std::vector<std::string> many;
                for (;;) many.emplace_back(1 << 20, 'x');
              } catch (const std::bad_alloc&) {
                return "no memory";
              }
            }),
            "no memory");
  EXPECT_EQ(run([]() -> std::string {
              std::set_new_handler([] { end_child("ended"); });
              std::vector<std::string> many;
              for (;;) many.emplace_back(1 << 20, 'x');
            }),
            "ended");
}

}  // namespace
}  // namespace itif::serving
