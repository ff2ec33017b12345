// Mode mps: a process a tenant. Parent and tenants share nothing but a pipe each way; a command is one
// byte ('r' run, 's' states, 'e' end), an answer one byte ('k' done) and, for 's', how many values there are and the values.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "execution_modes.h"
#include "instance.h"

extern char** environ;

namespace itif::bench {
namespace {

using nlohmann::json;

std::string to_text(const Workload& w) {
  return json{{"preset", w.preset},
              {"layers", w.layers},
              {"vocab", w.vocab},
              {"steps", w.steps},
              {"lengths", w.requests.lengths},
              {"dtype", w.dtype},
              {"threads", w.threads},
              {"is_thesis", w.fidelity == backbone::Fidelity::kThesis}}
      .dump();
}

Workload from_text(const std::string& text) {
  const json j = json::parse(text);
  return {.preset = j.at("preset"),
          .layers = j.at("layers"),
          .vocab = j.at("vocab"),
          .steps = j.at("steps"),
          .requests = {.name = {}, .lengths = j.at("lengths")},
          .dtype = j.at("dtype"),
          .threads = j.at("threads"),
          .fidelity = j.at("is_thesis") ? backbone::Fidelity::kThesis : backbone::Fidelity::kFused};
}

bool read_all(int fd, void* to, size_t bytes) {
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const void* from, size_t bytes) {
  for (const auto* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t put = ::write(fd, at, bytes);
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

class Mps final : public Execution {
 public:
  ~Mps() override {
    for (const Process& process : processes_) {
      ::close(process.commands);
      ::close(process.answers);
      int status = 0;
      ::waitpid(process.pid, &status, 0);  // it ends when its commands do
    }
  }

  Status start(const std::string& workload, uint32_t tenant) {
    std::array<int, 2> commands{}, answers{};
    if (::pipe2(commands.data(), O_CLOEXEC) != 0) return no_process(errno);
    if (::pipe2(answers.data(), O_CLOEXEC) != 0) return no_process(errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, commands[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
    std::string program = "/proc/self/exe", command = "tenant-process",
                name = std::to_string(tenant);
    std::string text = workload;
    char* argv[] = {program.data(), command.data(), text.data(), name.data(), nullptr};
    Process process{.pid = 0, .commands = commands[1], .answers = answers[0]};
    const int error =
        ::posix_spawn(&process.pid, program.c_str(), &actions, nullptr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(commands[0]);
    ::close(answers[1]);
    if (error != 0) {
      ::close(commands[1]);
      ::close(answers[0]);
      return no_process(error);
    }
    processes_.push_back(process);
    return {};
  }
  // Of those started: each has made its model.
  Status ready() { return answers(); }
  Status run() override {
    ITIF_TRY(command('r'));
    return answers();
  }
  Result<std::vector<float>> last_states() override {
    ITIF_TRY(command('s'));
    std::vector<float> last;
    for (const Process& process : processes_) {
      uint32_t count = 0;
      ITIF_TRY(answer(process));
      if (!read_all(process.answers, &count, sizeof(count))) return gone();
      const size_t before = last.size();
      last.resize(before + count);
      if (!read_all(process.answers, last.data() + before, count * sizeof(float))) return gone();
    }
    return last;
  }

 private:
  struct Process {
    pid_t pid;
    int commands, answers;
  };

  static std::unexpected<Error> no_process(int error) {
    return fail(Code::kResourceExhausted,
                fmt::format("cannot start a tenant's process: {}", errno_text(error)));
  }
  static std::unexpected<Error> gone() {
    return fail(Code::kResourceExhausted, "a tenant's process ended");
  }
  Status command(char what) {
    for (const Process& process : processes_)
      if (!write_all(process.commands, &what, 1)) return gone();
    return {};
  }
  static Status answer(const Process& process) {
    char byte = 0;
    if (!read_all(process.answers, &byte, 1) || byte != 'k') return gone();
    return {};
  }
  Status answers() {
    for (const Process& process : processes_) ITIF_TRY(answer(process));
    return {};
  }

  std::vector<Process> processes_;
};

Status serve_tenant(const Workload& workload, uint32_t tenant) {
  ITIF_ASSIGN(const auto device, device::open_device({.kind = "host",
                                                      .dtype = workload.dtype,
                                                      .num_threads = threads_of_tenant(workload)}));
  ITIF_ASSIGN(const auto instance, make_instance(*device, workload, {.first = tenant}));
  const char done = 'k';
  char command = 0;
  for (bool open = write_all(STDOUT_FILENO, &done, 1);
       open && read_all(STDIN_FILENO, &command, 1);) {
    if (command == 'r') {
      ITIF_TRY(instance->run({.first = tenant}));
      open = write_all(STDOUT_FILENO, &done, 1);
    } else {
      ITIF_ASSIGN(const std::vector<float> states, instance->states({.first = tenant}));
      const auto count = static_cast<uint32_t>(states.size());
      open = write_all(STDOUT_FILENO, &done, 1) &&
             write_all(STDOUT_FILENO, &count, sizeof(count)) &&
             write_all(STDOUT_FILENO, states.data(), count * sizeof(float));
    }
  }
  return {};
}

// Each process finds memory free that the others are about to take: ask for all of it first.
Status check_memory(const Workload& workload) {
  constexpr uint64_t kBytesOfProcess = uint64_t{128} << 20;  // libraries, their code, workspace
  ITIF_ASSIGN(const auto device,
              device::open_device({.kind = "host", .dtype = workload.dtype, .num_threads = 1}));
  ITIF_ASSIGN(const uint64_t weights, weight_bytes_of_tenant(*device, workload));
  const uint64_t needed = workload.num_tenants() * (weights + kBytesOfProcess);
  if (needed > device->available_bytes())
    return fail(Code::kResourceExhausted,
                fmt::format("{} processes need {:.1f} GB, and there are {:.1f}",
                            workload.num_tenants(), static_cast<double>(needed) * 1e-9,
                            static_cast<double>(device->available_bytes()) * 1e-9));
  return {};
}

}  // namespace

Result<std::unique_ptr<Execution>> make_mps(const Workload& workload) {
  ITIF_TRY(check_memory(workload));
  auto mps = std::make_unique<Mps>();
  for (uint32_t tenant = 0; tenant < workload.num_tenants(); ++tenant)
    ITIF_TRY(mps->start(to_text(workload), tenant));
  ITIF_TRY(mps->ready());
  return mps;
}

int run_tenant_process(const std::string& workload, uint32_t tenant) {
  if (Status served = serve_tenant(from_text(workload), tenant); !served) {
    fmt::print(stderr, "itif-bench, tenant {}: {}\n", tenant, served.error().message);
    return 1;
  }
  return 0;
}

}  // namespace itif::bench
