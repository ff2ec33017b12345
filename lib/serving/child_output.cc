#include "serving/child_output.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstring>

#include "base/units.h"

namespace itif::serving {
namespace {

constexpr size_t kMaxLineBytes = 200;

// The last line, in printable ASCII.
std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t before = text.rfind('\n');
  if (before != text.npos) text.remove_prefix(before + 1);
  std::string line(text.substr(0, kMaxLineBytes));
  for (char& c : line)
    if (c < ' ' || c > '~') c = '?';
  return line;
}

std::string describe_end(int status, bool too_late, const SandboxLimits& limits) {
  if (too_late || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
    return fmt::format("took longer than {} (process.model_check_time)",
                       format_duration_ns(limits.time_ns));
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGSYS)
    return "made a system call that parsing does not need (the kernel's log has its number)";
  if (WTERMSIG(status) == SIGKILL) return "was killed, perhaps for lack of memory";
  return fmt::format("crashed (signal {}, {})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
}

}  // namespace

Result<std::string> text_of_child(std::string_view output, int status, bool in_time,
                                  const SandboxLimits& limits) {
  const size_t mark = output.rfind(kTextFollows);
  if (in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0 && mark != output.npos)
    return std::string(output.substr(mark + 1));
  const std::string line = last_line(output.substr(0, mark));
  return fail(Code::kCorrupt, describe_end(status, !in_time, limits) +
                                  (line.empty() ? "" : fmt::format(" ({})", line)));
}

}  // namespace itif::serving
