#include "serving/seccomp_filter.h"

#include <fmt/format.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

namespace itif::serving {
namespace {

constexpr std::string_view kAllowed =
    // Memory. JIT compilers make executable pages.
    "brk madvise mbind membarrier memfd_create migrate_pages mincore mlock mlock2 mlockall mmap "
    "mprotect mremap msync munlock munlockall munmap get_mempolicy set_mempolicy pkey_alloc "
    "pkey_free pkey_mprotect process_madvise "
    // Files. SQLite, models, DPDK's runtime files, the log.
    "access chdir chmod chown close close_range copy_file_range creat dup dup2 dup3 faccessat "
    "faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown fchownat fcntl fdatasync "
    "fgetxattr flistxattr flock fstat fstatfs fsync ftruncate getcwd getdents getdents64 "
    "getxattr lchown lgetxattr link linkat listxattr llistxattr lseek lstat mkdir mkdirat "
    "newfstatat open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read "
    "readahead readlink readlinkat readv rename renameat renameat2 rmdir sendfile setxattr splice "
    "stat "
    "statfs statx symlink symlinkat sync_file_range syncfs tee truncate umask unlink unlinkat "
    "utime utimensat utimes write writev inotify_add_watch inotify_init1 inotify_rm_watch "

    // Waiting.
    "epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 "
    "futex futex_waitv nanosleep clock_nanosleep pause poll ppoll pselect6 select pipe pipe2 "
    "signalfd signalfd4 timerfd_create timerfd_gettime timerfd_settime "
    // Sockets; `socket` by family below.
    "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg "
    "recvmsg sendmmsg sendmsg sendto setsockopt shutdown socketpair "
    // Threads and processes; `clone` without namespaces below.
    "exit exit_group fork vfork getpgid getpgrp getpid getppid getpriority getsid gettid kill "
    "pidfd_open pidfd_send_signal prctl arch_prctl rseq sched_get_priority_max "
    "sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler "
    "sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler "
    "sched_yield set_robust_list get_robust_list set_tid_address setpgid setpriority setsid "
    "tgkill tkill wait4 waitid getcpu ioprio_get ioprio_set restart_syscall "
    // Signals.
    "rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend "
    "rt_sigtimedwait rt_tgsigqueueinfo sigaltstack alarm getitimer setitimer "
    // Time.
    "clock_getres clock_gettime gettimeofday time times timer_create timer_delete "
    "timer_getoverrun timer_gettime timer_settime "
    // Limits and identity, which can only shrink.
    "capget capset getegid geteuid getgid getgroups getresgid getresuid getrlimit getrusage "
    "getuid prlimit64 setrlimit getrandom seccomp sysinfo uname "
    "landlock_create_ruleset landlock_add_rule landlock_restrict_self "
    // Shared memory of drivers.
    "shmat shmctl shmdt shmget ";
// A successor becomes the configured user.
constexpr std::string_view kForPrograms =
    "execve execveat setfsgid setfsuid setgid setgroups setregid setresgid setresuid setreuid "
    "setuid ";
// Refused in every mode: programs only try them. clone3 passes its flags in memory, where a filter
// cannot see them: glibc then uses clone. EAL asks for I/O ports when it starts.
constexpr const char* kRefusedAlways[] = {"clone3", "iopl"};
constexpr int kFamilies[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_XDP};
constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};

Result<uint32_t> action_of(const std::string& mode) {
  if (mode == "refuse") return SCMP_ACT_ERRNO(ENOSYS);
  if (mode == "kill") return SCMP_ACT_KILL_PROCESS;
  if (mode == "log") return SCMP_ACT_LOG;
  return fail(Code::kInvalidArgument,
              fmt::format("process.seccomp: '{}' is not one of: refuse, kill, log, off", mode));
}

class Filter {
 public:
  explicit Filter(uint32_t otherwise) : context_(seccomp_init(otherwise)) {
    check(context_ ? seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM);
    // A balanced tree of comparisons instead of a list: every call passes the filter.
    if (context_) (void)seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  }

  // Allows the calls of a list separated by blanks.
  void allow_all(std::string_view names) {
    std::istringstream words{std::string(names)};
    for (std::string name; words >> name;) allow(name);
  }
  // Allows a call with such arguments. Ignores a name that this machine does not have.
  void allow(const std::string& name, const std::vector<scmp_arg_cmp>& arguments = {}) {
    const int number = seccomp_syscall_resolve_name(name.c_str());
    if (number == __NR_SCMP_ERROR || error_ != 0) return;
    check(seccomp_rule_add_array(context_.get(), SCMP_ACT_ALLOW, number,
                                 static_cast<unsigned>(arguments.size()), arguments.data()));
  }
  void refuse(const std::string& name) {
    const int number = seccomp_syscall_resolve_name(name.c_str());
    if (number != __NR_SCMP_ERROR && error_ == 0)
      check(seccomp_rule_add(context_.get(), SCMP_ACT_ERRNO(ENOSYS), number, 0));
  }
  // Returns 0 or a negative errno.
  int load() {
    if (error_ == 0) check(seccomp_load(context_.get()));
    return error_;
  }

 private:
  void check(int result) {
    if (error_ == 0 && result < 0) error_ = result;
  }

  std::unique_ptr<void, Release> context_;
  int error_ = 0;
};

}  // namespace

Status install_seccomp_filter(const SeccompOptions& options) {
  if (options.mode == "off") return {};
  ITIF_ASSIGN(const uint32_t otherwise, action_of(options.mode));
  Filter filter(otherwise);
  filter.allow_all(kAllowed);
  if (options.starts_programs) filter.allow_all(kForPrograms);
  if (options.loads_bpf) filter.allow("bpf");
  for (const int family : kFamilies)
    filter.allow("socket", {SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(family))});
  if (options.mode != "refuse")
    for (const char* const name : kRefusedAlways) filter.refuse(name);
  filter.allow("clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, kNamespaces, 0)});
  // Terminals take no input from us.
  filter.allow("ioctl", {SCMP_A1_32(SCMP_CMP_NE, TIOCSTI)});
  if (const int error = filter.load(); error != 0)
    return fail(Code::kUnsupported,
                fmt::format("process.seccomp: the filter cannot be installed: {}: set it to "
                            "\"off\" to serve without one",
                            errno_text(-error)));
  return {};
}

}  // namespace itif::serving
