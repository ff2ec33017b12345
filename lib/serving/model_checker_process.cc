// The process that checks models: a supervisor and a sandboxed child for each.
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>

#include "backbone/open_model.h"
#include "base/log.h"
#include "base/units.h"
#include "model/samples.h"
#include "serving/model_check_wire.h"
#include "serving/model_checker.h"

namespace itif::serving {
namespace {

using control::Descriptor;

constexpr int kNice = 10;  // beside threads that serve
// Crashes the child for the model in this directory. For tests only.
constexpr const char* kCrashVariable = "ITIF_TEST_CRASHING_MODEL";

// Drops all capabilities but the right to read the files of other users, if itifd has it.
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

// itifd's loaders run only when no other thread needs the CPU, and itifd keeps them going when all
// CPUs are busy. It cannot do so for this process, which therefore keeps the ordinary policy, with
// less weight.
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
  // Ignores errors of samples: itifd reports them, if it uses the samples.
  (void)model::read_samples(files.directory);
  return {};
} catch (const std::exception& e) {
  return fail(Code::kCorrupt, fmt::format("{}: unexpected failure: {}", files.directory, e.what()));
}

std::string no_memory_answer;  // of this child

// Runs in the child.
std::string check_in_sandbox(const ModelToCheck& model) {
  const auto& [files, limits] = model;
  no_memory_answer = answer_for(
      fail(Code::kCorrupt, fmt::format("{}: parsing its files needs more memory than {} "
                                       "(process.model_check_memory): the model is refused",
                                       files.directory, format_bytes(limits.memory_bytes))));
  // Ends the child without std::bad_alloc, which libraries throw where no exception may leave.
  std::set_new_handler([] { end_child(no_memory_answer); });
  const std::array<std::string, 2> directories{files.directory, files.base};
  const size_t count = files.base.empty() ? 1 : 2;
  Status done = enter_sandbox(limits, std::span(directories).first(count));
  if (done) done = open_all(files);
  return answer_for(done);
}

// Runs in the supervisor.
std::string answer_to(const std::string& request) {
  const auto model = parse_request(request);
  if (!model) return answer_for(std::unexpected(model.error()));
  auto text = run_child(model->limits, [&] { return check_in_sandbox(*model); });
  if (text) return *std::move(text);
  return answer_for(
      fail(text.error().code,
           fmt::format("{}: the sandboxed process that parsed its files {}: the model is "
                       "refused: a file is malformed, or itif has a defect: please report "
                       "it",
                       model->files.directory, text.error().message)));
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

int run_model_checker(int socket) {
  // The checker ends with itifd, which may still load models after these signals.
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
