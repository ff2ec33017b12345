#include "serving/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>

#include "control/file.h"

namespace itif::serving {
namespace {

namespace fs = std::filesystem;
using control::Descriptor;

constexpr std::string_view kSandboxCalls =
    "brk madvise mremap munmap "
    "close fcntl fstat getcwd getdents getdents64 lseek lstat newfstatat pread64 preadv read "
    "readahead fadvise64 readlink readlinkat readv stat statfs fstatfs statx access faccessat "
    "faccessat2 write writev "
    "exit exit_group futex getpid gettid getrandom rt_sigaction rt_sigprocmask rt_sigreturn "
    "sched_getaffinity sched_yield clock_getres clock_gettime clock_nanosleep nanosleep "
    "gettimeofday time getuid geteuid getgid getegid getrlimit restart_syscall ";
// Allowed for the process itself only, which needs them to end.
constexpr const char* kOwnProcess[] = {"tgkill", "kill"};
// Programs try these calls, and go on if they are refused.
constexpr const char* kSandboxRefuses[] = {"ioctl", "prlimit64", "sysinfo", "uname", "mlock"};
constexpr uint64_t kWrites = O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
constexpr rlim_t kMaxFiles = 1024;
constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kMaxLinks = 4096;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitsMemory = false;  // the sanitizer reserves terabytes of addresses
// The sanitizer writes to a pipe to find out whether memory can be read.
constexpr std::string_view kSanitizerCalls = "pipe pipe2 sigaltstack";
#else
constexpr bool kLimitsMemory = true;
constexpr std::string_view kSanitizerCalls = "";
#endif

std::unexpected<Error> unsupported(const char* what, int error) {
  return fail(Code::kUnsupported,
              fmt::format("the sandbox for models: cannot {}: {}: set process.model_check to "
                          "\"off\" to load models without it",
                          what, errno_text(error)));
}

uint64_t own_address_space() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

Status limit(__rlimit_resource resource, rlim_t most, rlim_t hard) {
  rlimit now{};
  ::getrlimit(resource, &now);
  const rlimit next{.rlim_cur = std::min(most, now.rlim_max),
                    .rlim_max = std::min(hard, now.rlim_max)};
  if (::setrlimit(resource, &next) != 0) return unsupported("limit the process", errno);
  return {};
}

Status set_limits(const SandboxLimits& limits) {
  const rlim_t seconds = (limits.time_ns + kNsPerSecond - 1) / kNsPerSecond;
  ITIF_TRY(limit(RLIMIT_CORE, 0, 0));
  ITIF_TRY(limit(RLIMIT_FSIZE, 0, 0));
  ITIF_TRY(limit(RLIMIT_MEMLOCK, 0, 0));
  ITIF_TRY(limit(RLIMIT_NOFILE, kMaxFiles, kMaxFiles));
  ITIF_TRY(limit(RLIMIT_CPU, seconds, seconds + 1));
  if (!kLimitsMemory) return {};
  const rlim_t bytes = own_address_space() + limits.memory_bytes;
  return limit(RLIMIT_AS, bytes, bytes);
}

// ---- Landlock

constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr uint64_t kRead = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kAllOfFirstVersion = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

void allow_path(int ruleset, const std::string& path, uint64_t access) {
  const Descriptor fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) return;  // the parser will say so
  const landlock_path_beneath_attr rule{
      .allowed_access = S_ISDIR(info.st_mode) ? access : access & kReadFile, .parent_fd = fd.get()};
  (void)::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

// Does nothing on a kernel without Landlock.
Status restrict_files(std::span<const std::string> directories) {
  landlock_ruleset_attr handled{};
  handled.handled_access_fs = kAllOfFirstVersion;
  // Its first field is all that the first version has.
  const Descriptor ruleset(static_cast<int>(
      ::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0)));
  if (!ruleset) return {};
  for (const std::string& directory : directories) {
    allow_path(ruleset.get(), directory, kRead);
    // The hub's cache has links to files elsewhere.
    std::error_code error;
    size_t links = 0;
    for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
         at.increment(error)) {
      if (at.depth() >= 2) at.disable_recursion_pending();
      std::error_code ignored;
      if (at->is_symlink(ignored) && ++links <= kMaxLinks)
        allow_path(ruleset.get(), at->path().string(), kReadFile);
    }
  }
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return unsupported("restrict files", errno);
  return {};
}

// ---- seccomp

struct ReleaseSandboxFilter {
  void operator()(void* filter) const { seccomp_release(filter); }
};

class SandboxFilter {
 public:
  SandboxFilter() : context_(seccomp_init(SCMP_ACT_KILL_PROCESS)) {
    if (!context_) error_ = -ENOMEM;
  }
  void add(uint32_t action, const std::string& name, std::span<const scmp_arg_cmp> arguments = {}) {
    const int number = seccomp_syscall_resolve_name(name.c_str());
    if (number == __NR_SCMP_ERROR || error_ != 0) return;
    error_ = seccomp_rule_add_array(context_.get(), action, number,
                                    static_cast<unsigned>(arguments.size()), arguments.data());
  }
  void allow_if(const std::string& name, const scmp_arg_cmp& condition) {
    add(SCMP_ACT_ALLOW, name, {&condition, 1});
  }
  int load() { return error_ == 0 ? seccomp_load(context_.get()) : error_; }

 private:
  std::unique_ptr<void, ReleaseSandboxFilter> context_;
  int error_ = 0;
};

Status filter_calls() {
  SandboxFilter filter;
  std::istringstream words{std::string(kSandboxCalls) + std::string(kSanitizerCalls)};
  for (std::string name; words >> name;) filter.add(SCMP_ACT_ALLOW, name);
  filter.allow_if("open", SCMP_A1(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  filter.allow_if("openat", SCMP_A2(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  for (const char* const name : {"mmap", "mprotect"})
    filter.allow_if(name, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  const auto own = static_cast<uint64_t>(::getpid());
  for (const char* const name : kOwnProcess) filter.allow_if(name, SCMP_A0(SCMP_CMP_EQ, own));
  for (const char* const name : kSandboxRefuses) filter.add(SCMP_ACT_ERRNO(EPERM), name);
  if (const int error = filter.load(); error != 0)
    return unsupported("filter system calls", -error);
  return {};
}

}  // namespace

Status enter_sandbox(const SandboxLimits& limits, std::span<const std::string> directories) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return unsupported("set no_new_privs", errno);
  ITIF_TRY(set_limits(limits));
  ITIF_TRY(restrict_files(directories));
  return filter_calls();
}

}  // namespace itif::serving
