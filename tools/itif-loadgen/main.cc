// itif-loadgen: command line → transports and senders → threads → table.
#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "capture_transport.h"
#include "client/socket_transport.h"
#include "eal_transport.h"
#include "null_transport.h"
#include "options.h"
#include "pcap_file.h"
#include "report.h"
#include "runner.h"
#include "sweep_plot.h"
#include "trials.h"

namespace itif::loadgen {
namespace {

std::atomic<int> stop_requested{0};
static_assert(std::atomic<int>::is_always_lock_free);

// The first Ctrl-C ends sending, the second also ends waiting for answers.
extern "C" void on_signal(int) {
  const int now = stop_requested.load(std::memory_order_relaxed);
  stop_requested.store(now < 2 ? now + 1 : 2, std::memory_order_relaxed);
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// capture: null: none.
Result<Link> open_link(const Clock& clock, const Options& options, PcapFile* capture) {
  if (options.null_sink) return Link{.transport = std::make_unique<NullTransport>()};
  if (!options.eal_args.empty()) {
    ITIF_ASSIGN(auto transport, open_eal_transport(clock, {.eal_args = options.eal_args,
                                                           .device = options.eal_device,
                                                           .local_ip = options.local_address,
                                                           .server_ip = options.server,
                                                           .server_mac = options.server_mac,
                                                           .server_port = options.port,
                                                           .num_flows = options.flows,
                                                           .capture = capture}));
    const client::Transport* const port = transport.get();
    return Link{.transport = std::move(transport),
                .receive_drops = [port] { return eal_receive_drops(*port); }};
  }
  client::SocketOptions socket;
  socket.server = options.server;
  socket.port = options.port;
  socket.local = options.local_address;
  socket.num_flows = options.flows;
  socket.busy_poll_us = options.busy_poll_us;
  ITIF_ASSIGN(auto transport, client::SocketTransport::connect(socket));
  const client::SocketTransport* const sockets = transport.get();
  Link link{.transport = {}, .sockets = sockets, .receive_drops = [sockets] {
              return sockets->receive_drops();
            }};
  if (capture == nullptr)
    link.transport = std::move(transport);
  else
    link.transport = std::make_unique<CaptureTransport>(std::move(transport), *capture);
  return link;
}

// Fails before the run if its results could not be written. Leaves no file behind.
Status check_json_path(const std::string& path) {
  if (path.empty() || path == "-") return {};
  struct stat found {};
  int error = 0;
  if (::stat(path.c_str(), &found) == 0) {
    error = S_ISDIR(found.st_mode) ? EISDIR : ::access(path.c_str(), W_OK) == 0 ? 0 : errno;
  } else {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    error = fd < 0 ? errno : 0;
    if (fd >= 0) {
      ::close(fd);
      ::unlink(path.c_str());
    }
  }
  if (error == 0) return {};
  return fail(Code::kPermission,
              fmt::format("--json {}: the file cannot be written: {}", path, errno_text(error)));
}

Status write_json(const std::string& path, const nlohmann::ordered_json& json) {
  if (path.empty()) return {};
  const std::string text = json.dump(2) + "\n";
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    return fail(Code::kPermission, fmt::format("--json {}: the file cannot be written", path));
  return {};
}

// Prints the text, unless standard output is for the JSON document, and writes the latter.
Status print_results(const Options& options, const std::string& text,
                     const nlohmann::ordered_json& json) {
  std::fputs(text.c_str(), options.json_file == "-" ? stderr : stdout);
  return write_json(options.json_file, json);
}

Result<int> run_searches(const Options& options, Runner& runner) {
  ITIF_ASSIGN(const auto searches, search(options, runner));
  ITIF_TRY(print_results(options, search_table(searches), search_json(options, searches)));
  return std::ranges::all_of(searches, &SearchResults::succeeded) && !runner.was_stopped() ? 0 : 1;
}

Result<int> run_sweep(const Options& options, Runner& runner) {
  if (!options.plot_file.empty()) ITIF_TRY(check_plot_path(options.plot_file));
  ITIF_ASSIGN(const auto trials, sweep(options, runner));
  ITIF_TRY(print_results(options, sweep_table(trials), sweep_json(options, trials)));
  if (!options.plot_file.empty()) ITIF_TRY(plot_sweep(trials, options.plot_file));
  return runner.was_stopped() ? 1 : 0;
}

Result<int> run_mode(const Options& options, Runner& runner) {
  if (options.flood) {
    const FloodResults results = runner.flood();
    ITIF_TRY(print_results(options, flood_table(results), flood_json(options, results)));
    return 0;
  }
  if (!options.goals.empty()) return run_searches(options, runner);
  if (options.sweep.steps > 0) return run_sweep(options, runner);
  ITIF_ASSIGN(const Results results, runner.run());
  ITIF_TRY(print_results(options, table(options, results), to_json(options, results)));
  return all_answered(results) ? 0 : 1;
}

Result<int> run(const Options& options) {
  if (sodium_init() < 0) return fail(Code::kInternal, "libsodium cannot be initialised");
  ITIF_TRY(check_json_path(options.json_file));
  const SystemClock clock;
  std::unique_ptr<PcapFile> capture;
  if (!options.pcap_file.empty()) {
    ITIF_ASSIGN(capture, PcapFile::create(clock, options.pcap_file, options.pcap_packets));
  }
  ITIF_ASSIGN(const auto runner, Runner::create(clock, options, stop_requested, [&] {
                return open_link(clock, options, capture.get());
              }));
  handle_signals();
  auto exit_code = run_mode(options, *runner);
  for (const std::string& note :
       exit_code && !options.flood ? runner->notes() : std::vector<std::string>())
    std::fprintf(stderr, "itif-loadgen: %s\n", note.c_str());
  if (capture == nullptr) return exit_code;
  Status closed = capture->close();
  if (exit_code && !closed) return std::unexpected(closed.error());
  if (closed && (!options.quiet || capture->is_cut()))
    std::fprintf(stderr, "%s\n", capture->summary().c_str());
  return exit_code;
}

}  // namespace
}  // namespace itif::loadgen

int main(int argc, char** argv) {
  using namespace itif::loadgen;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const Command command = parse_command(arguments);
  if (!command.run) {
    std::fputs(command.text.c_str(), command.exit_code == 0 ? stdout : stderr);
    return command.exit_code;
  }
  if (command.options.quiet) itif::log::set_level(itif::log::Level::kWarning);
  const auto ended = run(command.options);
  if (ended) return *ended;
  std::fprintf(stderr, "itif-loadgen: %s\n", ended.error().message.c_str());
  return 1;
}
