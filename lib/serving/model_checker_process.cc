// The process that checks models: its requests, and a supervisor and a sandboxed child for each.
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <nlohmann/json.hpp>

#include "backbone/open_model.h"
#include "base/log.h"
#include "base/units.h"
#include "json/json_file.h"
#include "model/samples.h"
#include "serving/model_check_wire.h"
#include "serving/model_checker.h"

namespace itif::serving {
namespace {

using control::Descriptor;
using nlohmann::json;

constexpr int kNice = 10;  // beside threads that serve
// Crashes the child for the model in this directory. For tests only.
constexpr const char* kCrashVariable = "ITIF_TEST_CRASHING_MODEL";

std::string text_of(const json& answer) {
  return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string text_of(const Error& error) {
  return text_of(json{{"code", code_name(error.code)}, {"message", error.message}});
}

// Leaves the right to read the files of other users, if itifd has it.
void drop_capabilities() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, 2> data{};
  constexpr uint32_t kReadAll = 1u << CAP_DAC_READ_SEARCH | 1u << CAP_DAC_OVERRIDE;
  (void)::syscall(SYS_capget, &header, data.data());
  const uint32_t kept = data[0].permitted & kReadAll;
  data = {};
  data[0] = {.effective = kept, .permitted = kept, .inheritable = 0};
  (void)::syscall(SYS_capset, &header, data.data());
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

// itifd's loaders run only when no other thread needs the CPU, and it helps them when all are busy.
// It cannot help this process, which therefore keeps the ordinary policy, with less weight.
void give_way() {
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_OTHER, &none);
  (void)::setpriority(PRIO_PROCESS, 0, kNice);
}

Status open_all(const model::ModelFiles& files) try {
  if (const char* crashing = std::getenv(kCrashVariable);
      crashing != nullptr && files.directory == crashing)
    std::abort();
  ITIF_TRY(backbone::open_model(files));
  // itifd reports an error of theirs, if it uses them.
  (void)model::read_samples(files.directory);
  return {};
} catch (const std::exception& e) {
  return fail(Code::kCorrupt, fmt::format("{}: unexpected failure: {}", files.directory, e.what()));
}

std::string no_memory_answer;  // of this child

// Runs in the child.
std::string check_in_sandbox(const model::ModelFiles& files, const SandboxLimits& limits) {
  no_memory_answer = text_of(
      Error{Code::kCorrupt, fmt::format("{}: parsing its files needs more memory than {} "
                                        "(process.model_check_memory): the model is refused",
                                        files.directory, format_bytes(limits.memory_bytes))});
  // Not by an exception: libraries throw it where no exception may leave.
  std::set_new_handler([] { end_child(no_memory_answer); });
  const std::array<std::string, 2> directories{files.directory, files.base};
  const size_t count = files.base.empty() ? 1 : 2;
  Status done = enter_sandbox(limits, std::span(directories).first(count));
  if (done) done = open_all(files);
  return done ? text_of(json{{"ok", true}}) : text_of(done.error());
}

// Runs in the supervisor.
std::string answer_to(const std::string& request) {
  const auto parsed = json_file::parse_json_object(request, "request");
  if (!parsed) return text_of(parsed.error());
  const model::ModelFiles files(parsed->value("directory", ""), parsed->value("base", ""));
  const SandboxLimits limits{.memory_bytes = parsed->value("memory_bytes", uint64_t{0}),
                             .time_ns = parsed->value("time_ns", uint64_t{0})};
  auto text = run_child(limits, [&] { return check_in_sandbox(files, limits); });
  if (text) return *std::move(text);
  return text_of(
      Error{text.error().code,
            fmt::format("{}: the sandboxed process that parsed its files {}: the model is "
                        "refused: a file is malformed, or itif has a defect: please report "
                        "it",
                        files.directory, text.error().message)});
}

[[noreturn]] void supervise(const CheckRequest& request, pid_t checker) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != checker) ::_exit(1);
  ::close(kCheckerSocket);
  ::signal(SIGCHLD, SIG_DFL);
  const std::string answer = answer_to(request.text);
  for (size_t at = 0; at < answer.size();) {
    const ssize_t put = ::write(request.answers.get(), answer.data() + at, answer.size() - at);
    if (put <= 0 && errno != EINTR) ::_exit(1);
    at += static_cast<size_t>(std::max<ssize_t>(put, 0));
  }
  ::_exit(0);
}

}  // namespace

bool send_request(int socket, const std::string& request, int answers) {
  iovec bytes{.iov_base = const_cast<char*>(request.data()), .iov_len = request.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof answers);
  std::memcpy(CMSG_DATA(header), &answers, sizeof answers);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(request.size());
}

std::optional<CheckRequest> receive_request(int socket) {
  CheckRequest request;
  request.text.resize(kMaxCheckBytes);
  iovec bytes{.iov_base = request.text.data(), .iov_len = request.text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  while ((got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) continue;
  if (got <= 0) return std::nullopt;
  request.text.resize(static_cast<size_t>(got));
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    request.answers = Descriptor(fd);
  }
  return request;
}

int run_model_checker(int socket) {
  // It ends with itifd, which may still load models after these signals.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(number, SIG_IGN);
  ::signal(SIGCHLD, SIG_IGN);  // supervisors leave no zombies
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_NAME, "itif-checker", 0, 0, 0);
  drop_capabilities();
  give_way();
  log::set_level(log::Level::kNone);
  const pid_t own = ::getpid();
  while (const auto request = receive_request(socket))
    if (::fork() == 0) supervise(*request, own);
  return 0;
}

}  // namespace itif::serving
