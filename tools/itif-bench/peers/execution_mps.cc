// Mode mps: one process per tenant, connected to the parent by a pipe in each direction. A tenant's
// process ends when its command pipe is closed.
//
//   command: one byte: 'r' run, 's' states, 'p' profile
//   answer:  one byte 'k' (done); for 's' then a count and the values, for 'p' a length and a JSON
//            text
#include "peers/execution_mps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/own_program.h"
#include "device/compute_types.h"
#include "peers/instance.h"

extern char** environ;

namespace itif::bench {
namespace {

using nlohmann::json;

std::string to_text(const Workload& w) {
  return json{
      {"preset", w.preset},      {"layers", w.layers},
      {"steps", w.steps},        {"lengths", w.requests.lengths},
      {"is_gpu", w.on.is_gpu},   {"dtype", compute_name(w.on.compute)},
      {"threads", w.on.threads}, {"is_thesis", w.fusion_mode == backbone::FusionMode::kThesis},
      {"attention", w.attention}}
      .dump();
}

Workload from_text(const std::string& text) {
  const json j = json::parse(text);
  return {.preset = j.at("preset"),
          .layers = j.at("layers"),
          .steps = j.at("steps"),
          .requests = {.name = {}, .lengths = j.at("lengths")},
          .on = {.is_gpu = j.at("is_gpu"),
                 .compute = device::read_compute_types(j.at("dtype"), {}).value(),
                 .threads = j.at("threads")},
          .fusion_mode =
              j.at("is_thesis") ? backbone::FusionMode::kThesis : backbone::FusionMode::kFused,
          .attention = j.at("attention")};
}

std::string to_text(const RunProfile& p) {
  return json{{"operator_ns", p.operator_ns},
              {"launches", p.launches},
              {"launch_ns", p.launch_ns},
              {"empty_ns", p.empty_ns}}
      .dump();
}

RunProfile profile_from_text(const std::string& text) {
  const json j = json::parse(text);
  return {.operator_ns = j.at("operator_ns"),
          .launches = j.at("launches"),
          .launch_ns = j.at("launch_ns"),
          .empty_ns = j.at("empty_ns")};
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

// Writes the count, then the elements.
template <class Sequence>
bool write_sequence(int fd, const Sequence& elements) {
  const auto count = static_cast<uint32_t>(elements.size());
  return write_all(fd, &count, sizeof(count)) &&
         write_all(fd, elements.data(), count * sizeof(elements[0]));
}
template <class Sequence>
bool append_sequence(int fd, Sequence& elements) {
  uint32_t count = 0;
  if (!read_all(fd, &count, sizeof(count))) return false;
  const size_t before = elements.size();
  elements.resize(before + count);
  return read_all(fd, elements.data() + before, count * sizeof(elements[0]));
}

// Environment entry with the MPS daemon's pipe directory. Only the tenants' processes get it,
// because the other modes run without the daemon. Empty: CUDA's default directory.
std::string mps_pipes() {
  const char* const folder = std::getenv("ITIF_BENCH_MPS_PIPE_DIRECTORY");
  if (folder == nullptr || *folder == 0) return "";
  return fmt::format("CUDA_MPS_PIPE_DIRECTORY={}", folder);
}

// Returns our environment with `entry` in place of its variable. An empty `entry` changes nothing.
// The result points into `entry`.
std::vector<char*> environment_with(std::string& entry) {
  std::vector<char*> all;
  if (!entry.empty()) all.push_back(entry.data());
  const std::string_view name = std::string_view(entry).substr(0, entry.find('=') + 1);
  for (char** at = environ; *at != nullptr; ++at)
    if (name.empty() || !std::string_view(*at).starts_with(name)) all.push_back(*at);
  all.push_back(nullptr);
  return all;
}

class Mps final : public Execution {
 public:
  ~Mps() override {
    for (const Process& process : processes_) {
      ::close(process.commands);
      ::close(process.answers);
      int status = 0;
      ::waitpid(process.pid, &status, 0);  // it ends when its command pipe is closed
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
    std::string program = own_program(), command = "tenant-process", name = std::to_string(tenant);
    std::string text = workload;
    std::string pipes = mps_pipes();
    std::vector<char*> environment = environment_with(pipes);
    char* argv[] = {program.data(), command.data(), text.data(), name.data(), nullptr};
    Process process{.pid = 0, .commands = commands[1], .answers = answers[0]};
    const int error =
        ::posix_spawn(&process.pid, program.c_str(), &actions, nullptr, argv, environment.data());
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
  // Waits until all started processes have made their models.
  Status ready() { return answers(); }
  Status run() override {
    ITIF_TRY(command('r'));
    return answers();
  }
  Result<std::vector<float>> last_states() override {
    ITIF_TRY(command('s'));
    std::vector<float> last;
    for (const Process& process : processes_) {
      ITIF_TRY(answer(process));
      if (!append_sequence(process.answers, last)) return gone();
    }
    return last;
  }
  Result<RunProfile> profile() override {
    ITIF_TRY(command('p'));
    RunProfile all;
    for (const Process& process : processes_) {
      ITIF_TRY(answer(process));
      std::string text;
      if (!append_sequence(process.answers, text)) return gone();
      all.add(profile_from_text(text));
    }
    return all;
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
    return fail(Code::kResourceExhausted, "a tenant's process ended early (see standard error)");
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
  ITIF_ASSIGN(const auto device, open_device(workload, threads_of_tenant(workload, tenant)));
  ITIF_ASSIGN(const auto instance, make_instance(*device, workload, {.first = tenant}));
  const char done = 'k';
  char command = 0;
  for (bool open = write_all(STDOUT_FILENO, &done, 1);
       open && read_all(STDIN_FILENO, &command, 1);) {
    if (command == 'r') {
      ITIF_TRY(instance->run({.first = tenant}));
      open = write_all(STDOUT_FILENO, &done, 1);
    } else if (command == 'p') {
      ITIF_ASSIGN(const RunProfile profile, instance->profile({.first = tenant}));
      open = write_all(STDOUT_FILENO, &done, 1) && write_sequence(STDOUT_FILENO, to_text(profile));
    } else {
      ITIF_ASSIGN(const std::vector<float> states, instance->states({.first = tenant}));
      open = write_all(STDOUT_FILENO, &done, 1) && write_sequence(STDOUT_FILENO, states);
    }
  }
  return {};
}

// Checks the memory of all processes together, because each alone would see memory free that the
// others will take.
Status check_memory(const Workload& workload) {
  constexpr uint64_t kBytesOfProcess = uint64_t{128} << 20;  // libraries, their code, workspace
  ITIF_ASSIGN(const auto device, open_device(workload, 1));
  ITIF_ASSIGN(const uint64_t weights, weight_bytes_of_tenant(*device, workload));
  const uint64_t needed = workload.num_tenants() * (weights + kBytesOfProcess);
  if (needed > device->available_bytes())
    return fail(Code::kResourceExhausted,
                fmt::format("{} processes need {:.1f} GB of memory, only {:.1f} GB are free",
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

int run_tenant_process(const std::string& workload, const std::string& tenant) {
  Status served = fail(Code::kInvalidArgument, "arguments must be a workload and a tenant number");
  uint32_t number = 0;
  const char* const end = tenant.data() + tenant.size();
  try {
    if (std::from_chars(tenant.data(), end, number).ptr == end && !tenant.empty())
      served = serve_tenant(from_text(workload), number);
  } catch (const json::exception& error) {
    served = fail(Code::kInvalidArgument, error.what());
  }
  if (served) return 0;
  fmt::print(stderr, "itif-bench, tenant {}: {}\n", tenant, served.error().message);
  return 1;
}

}  // namespace itif::bench
