#include "net/eal.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_pdump.h>
#include <unistd.h>

#include <cstdio>

#include "base/log.h"
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

// First match wins: the more telling lines first.
constexpr Cause kCauses[] = {
    {"another primary process", Code::kUnavailable,
     "another DPDK process runs under this file prefix: stop it, or add --file-prefix=NAME"},
    {"Permission denied", Code::kPermission, "run as root, or grant access to what it names"},
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
    {"failed to initialize", Code::kNotFound,
     "check the device's arguments in eal.args (does the interface exist?)"},
    {"attach", Code::kNotFound,
     "check the device's name and arguments in eal.args (does the interface exist?)"},
    {"probe", Code::kNotFound,
     "check the device's name and arguments in eal.args (does the interface exist?)"},
    {"lcore", Code::kInvalidArgument,
     "check -l in eal.args: `nproc` says how many cores there are"},
    {"invalid", Code::kInvalidArgument, "check eal.args"},
    {"Invalid", Code::kInvalidArgument, "check eal.args"},
    {"option", Code::kInvalidArgument, "check eal.args"},
};

// Lines that only say that something failed, not what.
bool is_vague(std::string_view line) {
  return line.find("FATAL") != line.npos || line.find("Cannot probe devices") != line.npos;
}

Error explain(const std::vector<std::string>& lines, int error) {
  // The first grave line is the cause, what follows are its consequences.
  std::string said;
  for (const std::string& line : lines)
    if (said.empty() || is_vague(said)) said = line;
  for (const Cause& cause : kCauses)
    for (const std::string& line : lines)
      if (line.find(cause.words) != std::string::npos)
        return {cause.code, fmt::format("DPDK does not start: {} ({}): {}", line,
                                        rte_strerror(error), cause.remedy)};
  const Code code = error == EACCES || error == EPERM ? Code::kPermission
                    : error == EINVAL                 ? Code::kInvalidArgument
                    : error == ENOMEM                 ? Code::kResourceExhausted
                    : error == EALREADY               ? Code::kAlreadyExists
                                                      : Code::kInternal;
  return {code,
          fmt::format("DPDK does not start: {}{}{}: check eal.args and, with log_level debug, "
                      "what it printed",
                      said, said.empty() ? "" : ": ", rte_strerror(error))};
}

// EAL prints its usage, some hundred lines, to standard output when it dislikes an argument.
class QuietStdout {
 public:
  QuietStdout() {
    fflush(stdout);
    saved_ = dup(STDOUT_FILENO);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null >= 0) {
      dup2(null, STDOUT_FILENO);
      close(null);
    }
  }
  ~QuietStdout() {
    fflush(stdout);
    if (saved_ >= 0) {
      dup2(saved_, STDOUT_FILENO);
      close(saved_);
    }
  }

 private:
  int saved_;
};

int init_quietly(std::vector<char*>& argv) {
  const QuietStdout quiet;
  return rte_eal_init(static_cast<int>(argv.size()) - 1, argv.data());
}

void start_packet_capture() {
  if (!rte_eal_has_hugepages()) {
    log::info("packet capture (dpdk-dumpcap) is off: it needs hugepages");
  } else if (rte_pdump_init() == 0) {
    g_capture = true;
  } else {
    log::info(
        "packet capture (dpdk-dumpcap) is off: {} (--in-memory and --no-shconf keep other "
        "processes "
        "out)",
        rte_strerror(rte_errno));
  }
}

}  // namespace

Status start_eal(const std::vector<std::string>& args) {
  if (g_started) return fail(Code::kAlreadyExists, "DPDK has been started already");
  // EAL keeps pointers into argv and reorders it.
  static std::vector<std::string> words;
  static std::vector<char*> argv;
  words = {"itif"};
  words.insert(words.end(), args.begin(), args.end());
  argv.clear();
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  // --help would print and exit; an argument that is not an option would be left over.
  for (const std::string& arg : args)
    if (arg == "-h" || arg == "--help" || arg == "-v" || arg == "--version" || arg == "--")
      return fail(Code::kInvalidArgument, fmt::format("eal.args: '{}' cannot be used here", arg));

  capture_eal_log();
  const int parsed = init_quietly(argv);
  const int error = rte_errno;
  const std::vector<std::string> lines = release_eal_log();
  if (parsed < 0) return std::unexpected(explain(lines, error));
  g_started = true;
  for (const std::string& line : lines) log::write(log::Level::kWarning, line);
  if (static_cast<size_t>(parsed) + 1 < words.size())
    return fail(Code::kInvalidArgument, fmt::format("eal.args: '{}' is no EAL option",
                                                    argv[static_cast<size_t>(parsed) + 1]));
  start_packet_capture();
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
