// Each test installs the filter in a child process: it cannot be removed.
#include "serving/seccomp_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string_view>
#include <thread>

namespace itif::serving {
namespace {

// Runs `body` under the filter in a child. Returns the status of waitpid; a `body` that returns
// false ends with 1.
int run_filtered(const SeccompOptions& options, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(2);
    if (!install_seccomp_filter(options)) ::_exit(3);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

bool is_refused(long result) {
  return result == -1 && errno == ENOSYS;
}

struct Call {
  const char* name;
  std::function<long()> run;
};

const Call kDenied[] = {
    {"ptrace", [] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
    {"mount", [] { return ::syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, nullptr); }},
    {"umount2", [] { return ::syscall(SYS_umount2, "/nonexistent", 0); }},
    {"pivot_root", [] { return ::syscall(SYS_pivot_root, "/", "/"); }},
    {"chroot", [] { return ::syscall(SYS_chroot, "/"); }},
    {"kexec_load", [] { return ::syscall(SYS_kexec_load, 0, 0, nullptr, 0); }},
    {"init_module", [] { return ::syscall(SYS_init_module, nullptr, 0, ""); }},
    {"finit_module", [] { return ::syscall(SYS_finit_module, -1, "", 0); }},
    {"delete_module", [] { return ::syscall(SYS_delete_module, "nonexistent", 0); }},
    {"keyctl", [] { return ::syscall(SYS_keyctl, 0, 0, 0, 0, 0); }},
    {"add_key", [] { return ::syscall(SYS_add_key, "user", "x", "y", 1, 0); }},
    {"bpf", [] { return ::syscall(SYS_bpf, 0, nullptr, 0); }},
    {"userfaultfd", [] { return ::syscall(SYS_userfaultfd, 0); }},
    {"io_uring_setup", [] { return ::syscall(SYS_io_uring_setup, 1, nullptr); }},
    {"perf_event_open", [] { return ::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }},
    {"process_vm_readv",
     [] { return ::syscall(SYS_process_vm_readv, ::getpid(), nullptr, 0, nullptr, 0, 0); }},
    {"process_vm_writev",
     [] { return ::syscall(SYS_process_vm_writev, ::getpid(), nullptr, 0, nullptr, 0, 0); }},
    {"unshare", [] { return ::syscall(SYS_unshare, CLONE_NEWUSER); }},
    {"setns", [] { return ::syscall(SYS_setns, -1, 0); }},
    {"clone with a namespace",
     [] { return ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }},
    {"reboot", [] { return ::syscall(SYS_reboot, 0, 0, 0, nullptr); }},
    {"swapon", [] { return ::syscall(SYS_swapon, "/nonexistent", 0); }},
    {"settimeofday", [] { return ::syscall(SYS_settimeofday, nullptr, nullptr); }},
    {"iopl", [] { return ::syscall(SYS_iopl, 0); }},
    {"open_by_handle_at", [] { return ::syscall(SYS_open_by_handle_at, -1, nullptr, 0); }},
    {"a Bluetooth socket", [] { return long{::socket(AF_BLUETOOTH, SOCK_RAW, 0)}; }},
    {"a socket of AF_ALG", [] { return long{::socket(AF_ALG, SOCK_SEQPACKET, 0)}; }},
    {"TIOCSTI", [] { return long{::ioctl(0, TIOCSTI, "x")}; }},
};

TEST(SeccompFilterTest, RefusesEachCallOutsideOfItsList) {
  for (const Call& call : kDenied)
    EXPECT_EQ(run_filtered({.mode = "refuse"}, [&] { return is_refused(call.run()); }), 0)
        << call.name;
}

TEST(SeccompFilterTest, KillsTheProcessIfAsked) {
  for (const Call& call : kDenied) {
    if (call.name == std::string_view("iopl")) continue;  // EAL tries it
    const int status = run_filtered({.mode = "kill"}, [&] { return call.run(), true; });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << call.name;
  }
}

TEST(SeccompFilterTest, OnlyLogsIfAsked) {
  EXPECT_EQ(run_filtered({.mode = "log"},
                         [] { return !is_refused(::syscall(SYS_umount2, "/nonexistent", 0)); }),
            0);
}

TEST(SeccompFilterTest, OffInstallsNone) {
  EXPECT_EQ(run_filtered({.mode = "off"}, [] { return ::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0; }),
            0);
}

TEST(SeccompFilterTest, AllowsThreadsFilesSocketsAndExecutableMemory) {
  EXPECT_EQ(run_filtered({.mode = "kill"},
                         [] {
                           bool ran = false;
                           std::thread([&ran] { ran = true; }).join();
                           const int file = ::open("/proc/self/status", O_RDONLY);
                           void* const code =
                               ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                           return ran && file >= 0 && code != MAP_FAILED &&
                                  ::socket(AF_UNIX, SOCK_STREAM, 0) >= 0 &&
                                  ::socket(AF_INET6, SOCK_STREAM, 0) >= 0;
                         }),
            0);
}

TEST(SeccompFilterTest, StartsProgramsOnlyIfAHandoverMayFollow) {
  const auto starts = [] {
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/true", "true", nullptr);
      ::_exit(errno == ENOSYS ? 9 : 8);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  EXPECT_EQ(run_filtered({.mode = "refuse", .starts_programs = true}, starts), 0);
  EXPECT_EQ(WEXITSTATUS(run_filtered({.mode = "refuse", .starts_programs = false}, starts)), 1);
}

TEST(SeccompFilterTest, HoldsForThreadsThatRunAlready) {
  EXPECT_EQ(run_filtered({.mode = "off"},
                         [] {
                           std::atomic<int> step{0};
                           bool refused = false;
                           std::thread other([&] {
                             while (step == 0) ::usleep(100);
                             refused = is_refused(::syscall(SYS_umount2, "/nonexistent", 0));
                           });
                           const bool installed =
                               install_seccomp_filter({.mode = "refuse"}).has_value();
                           step = 1;
                           other.join();
                           return installed && refused;
                         }),
            0);
}

TEST(SeccompFilterTest, AnUnknownModeIsRefused) {
  const Status installed = install_seccomp_filter({.mode = "strict"});
  ASSERT_FALSE(installed);
  EXPECT_EQ(installed.error().code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace itif::serving
