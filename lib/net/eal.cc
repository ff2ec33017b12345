#include "net/eal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_pdump.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"
#include "net/devices.h"
#include "net/eal_log.h"

namespace itif::net {
namespace {

bool g_started = false;
bool g_capture = false;

struct Cause {
  std::string_view words;  // in one of EAL's last lines
  Code code;
  std::string_view remedy;
};

// The first entry that matches any line wins, so the most specific ones come first.
constexpr Cause kCauses[] = {
    {"another primary process", Code::kUnavailable,
     "another DPDK process runs under this file prefix: stop it, or add --file-prefix=NAME"},
    {"Permission denied", Code::kPermission,
     "run as root, or grant access to the file that EAL names"},
    {"Operation not permitted", Code::kPermission,
     "run as root, or grant CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN"},
    {"hugepage", Code::kResourceExhausted,
     "reserve hugepages (echo 512 > /proc/sys/vm/nr_hugepages; mount -t hugetlbfs nodev "
     "/dev/hugepages) or add --no-huge"},
    {"Not enough memory", Code::kResourceExhausted,
     "reserve more hugepages, or lower -m and data_plane.mbufs"},
    {"Cannot init memory", Code::kResourceExhausted,
     "reserve more hugepages, or lower -m and data_plane.mbufs"},
    {"failed to parse device", Code::kNotFound, "no DPDK driver has this name: check eal.args"},
    {"attach", Code::kNotFound,
     "check the device's name and arguments in eal.args (does the interface exist?)"},
    {"probe", Code::kNotFound,
     "check the device's name and arguments in eal.args (does the interface exist?)"},
    {"not compatible", Code::kInvalidArgument, "leave one of them out of eal.args"},
    {"specified together", Code::kInvalidArgument, "leave one of them out of eal.args"},
    {"lcore", Code::kInvalidArgument,
     "check -l in eal.args: `nproc` says how many cores there are"},
    {"invalid", Code::kInvalidArgument, "check eal.args"},
    {"Invalid", Code::kInvalidArgument, "check eal.args"},
    {"option", Code::kInvalidArgument, "check eal.args"},
};

// Returns true for lines that do not say what failed.
bool is_vague(const std::string& line) {
  for (const char* words : {"FATAL", "Cannot probe devices", "Invalid 'command line' arguments"})
    if (line.find(words) != line.npos) return true;
  return false;
}

const Cause* cause_in(const std::string& line) {
  const auto* found = std::find_if(std::begin(kCauses), std::end(kCauses), [&](const Cause& cause) {
    return line.find(cause.words) != line.npos;
  });
  return found == std::end(kCauses) ? nullptr : found;
}

Error explain(std::vector<std::string> lines, int error) {
  if (!std::all_of(lines.begin(), lines.end(), is_vague)) std::erase_if(lines, is_vague);
  const std::string* said = nullptr;
  const Cause* cause = nullptr;
  for (const std::string& line : lines) {
    const Cause* found = cause_in(line);
    if (found == nullptr || (cause != nullptr && cause <= found)) continue;
    said = &line;
    cause = found;
  }
  if (cause != nullptr)
    return {cause->code, fmt::format("DPDK does not start: {} ({}): {}", *said, rte_strerror(error),
                                     cause->remedy)};
  const Code code = error == EACCES || error == EPERM ? Code::kPermission
                    : error == EINVAL                 ? Code::kInvalidArgument
                    : error == ENOMEM                 ? Code::kResourceExhausted
                    : error == EALREADY               ? Code::kAlreadyExists
                                                      : Code::kInternal;
  // The first line is the cause; later lines are its consequences.
  const std::string first = lines.empty() ? "" : lines.front() + ": ";
  return {code, fmt::format("DPDK does not start: {}{}: check eal.args and, with log_level debug, "
                            "what it printed",
                            first, rte_strerror(error))};
}

// EAL starts without a --vdev that it cannot create. Fails here, not later at a missing port.
Status check_devices(const std::vector<std::string>& lines) {
  constexpr std::string_view kFailed = "vdev_probe(): failed to initialize ";
  const auto failed = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
    return line.find(kFailed) != line.npos;
  });
  if (failed == lines.end()) return {};
  std::string name = failed->substr(failed->find(kFailed) + kFailed.size());
  name.resize(std::min(name.size(), name.find(" device")));
  // A driver logs its reason in the line before. A permission error is the cause of any others.
  const auto refused = std::find_if(lines.begin(), failed, [](const std::string& line) {
    const Cause* cause = cause_in(line);
    return cause != nullptr && cause->code == Code::kPermission;
  });
  std::string why = refused != failed         ? *refused
                    : failed == lines.begin() ? *failed
                                              : *(failed - 1);
  if (why.ends_with('.')) why.pop_back();
  if (refused != failed)
    return fail(Code::kPermission,
                fmt::format("DPDK cannot create {}: {}: run as root, or grant CAP_NET_ADMIN and "
                            "CAP_NET_RAW",
                            name, why));
  return fail(Code::kNotFound,
              fmt::format("DPDK cannot create {}: {}: {}check its arguments in eal.args (does the "
                          "interface or file that they name exist?)",
                          name, why, geteuid() == 0 ? "" : "run as root, or "));
}

// Redirects standard output and error during rte_eal_init. On a bad argument EAL prints about a
// hundred lines of usage to standard output and repeats its log on standard error.
class QuietOutput {
 public:
  QuietOutput() {
    fflush(stdout);
    saved_ = dup(STDOUT_FILENO);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) {
      dup2(null, STDOUT_FILENO);
      close(null);
    }
    if (std::FILE* kept = eal_stderr()) stderr = kept;  // glibc allows assigning to stderr
  }
  ~QuietOutput() {
    fflush(stderr);
    stderr = saved_stderr_;
    fflush(stdout);
    if (saved_ >= 0) {
      dup2(saved_, STDOUT_FILENO);
      close(saved_);
    }
  }

 private:
  int saved_;
  std::FILE* saved_stderr_ = stderr;
};

int init_quietly(std::vector<char*>& argv) {
  const QuietOutput quiet;
  return rte_eal_init(static_cast<int>(argv.size()) - 1, argv.data());
}

void start_packet_capture(const std::vector<std::string>& args) {
  if (const std::string why = keeps_captures_out(args); !why.empty()) {
    log::info("packet capture (dpdk-dumpcap) is off: {}", why);
  } else if (rte_pdump_init() == 0) {
    g_capture = true;
  } else {
    log::info("packet capture (dpdk-dumpcap) is off: {}", rte_strerror(rte_errno));
  }
}

}  // namespace

Status start_eal(const std::vector<std::string>& args) {
  if (g_started) return fail(Code::kAlreadyExists, "DPDK is already running");
  // EAL keeps pointers into argv and reorders it.
  static std::vector<std::string> words;
  static std::vector<char*> argv;
  words = {"itif"};
  words.insert(words.end(), args.begin(), args.end());
  argv.clear();
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  // --help and --version would print and exit; -- would leave the arguments after it unparsed.
  for (const std::string& arg : args)
    if (arg == "-h" || arg == "--help" || arg == "-v" || arg == "--version" || arg == "--")
      return fail(Code::kInvalidArgument, fmt::format("eal.args: '{}' is not allowed here", arg));

  log::debug("starting DPDK: {}", fmt::join(args, " "));
  remove_stale_sockets(args);
  capture_eal_log();
  const int parsed = init_quietly(argv);
  const int error = rte_errno;
  const std::vector<std::string> lines = release_eal_log();
  if (parsed < 0) return std::unexpected(explain(lines, error));
  g_started = true;
  Status status = check_devices(lines);
  if (status && static_cast<size_t>(parsed) + 1 < words.size())
    status = fail(Code::kInvalidArgument, fmt::format("eal.args: '{}' is no EAL option",
                                                      argv[static_cast<size_t>(parsed) + 1]));
  if (!status) {
    stop_eal();
    return status;
  }
  for (const std::string& line : lines) log::write(log::Level::kWarning, line);
  start_packet_capture(args);
  return {};
}

bool packet_capture_ready() {
  return g_capture;
}

void stop_eal() {
  if (!g_started) return;
  if (g_capture) rte_pdump_uninit();
  rte_eal_cleanup();
  g_started = g_capture = false;
}

}  // namespace itif::net
