// itifd, the appliance: builds objects and threads from the configuration, and stops them in the
// reverse order.
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"
#include "base/own_program.h"
#include "base/units.h"
#include "config/needed_memory.h"
#include "control/server.h"
#include "device/host/pool_wait.h"
#include "device/regained_memory.h"
#include "net/eal.h"
#include "pipeline/lcores.h"
#include "serving/appliance_documents.h"
#include "serving/dpdk_telemetry.h"
#include "serving/handover.h"
#include "serving/main_loop.h"
#include "serving/metrics.h"
#include "serving/model_check_wire.h"
#include "serving/model_checker.h"
#include "serving/privileges.h"
#include "serving/process_limits.h"
#include "serving/seccomp_filter.h"
#include "serving/service_reports.h"
#include "serving/takeover.h"
#include "telemetry/prometheus.h"

namespace itif::app {
namespace {

control::ServerOptions server_options(const config::Control& control) {
  return {.endpoint = control.endpoint,
          .events_endpoint = control.events_endpoint,
          .tcp_endpoint = control.tcp_endpoint,
          .curve_secret_file = control.curve_secret_file,
          .authorized_keys_file = control.authorized_keys_file,
          .state_dir = control.state_dir};
}

// The command line, program and CPUs that this process was started with.
struct Launch {
  std::string config_file;
  int take_over = -1;   // the channel to the process that hands over; -1: none
  std::string program;  // this program's file
  cpu_set_t cpus{};     // of the process, before EAL pins threads
};

struct EalSession {
  ~EalSession() { net::stop_eal(); }
};

// Returns the arguments that EAL was started with.
Result<net::EalPlan> start_environment(const config::Config& config, const pipeline::CpuPlan& cpus,
                                       serving::Takeover* takeover) {
  const uint32_t needed_mb = config::needed_memory_mb(config);
  ITIF_ASSIGN(net::EalPlan eal,
              takeover != nullptr
                  ? takeover->eal_plan(cpus.eal_args, needed_mb)
                  : net::plan_eal(cpus.eal_args, net::inspect_hugepages(), needed_mb));
  if (!eal.warning.empty()) log::warning("{}", eal.warning);
  ITIF_TRY(net::start_eal(eal.args));
  return eal;
}

// Returns true if a port replays a capture. Such a port must start after the tenants' models are
// loaded: the replay begins when the port starts, and its requests are not repeated.
bool replays_capture(const pipeline::Pipeline& plane) {
  return std::ranges::any_of(plane.ports(),
                             [](const auto& port) { return port->info().driver == "net_pcap"; });
}

bool opens_af_xdp(const pipeline::Pipeline& plane) {
  return std::ranges::any_of(plane.ports(),
                             [](const auto& port) { return port->info().driver == "net_af_xdp"; });
}

Status start_ports(pipeline::Pipeline& plane) {
  for (const auto& worker : plane.workers())
    if (worker->options().is_first_of_port()) worker->announce();
  return plane.start();
}

// Opens the CPU as the fallback device, with the configured data type if the CPU supports it.
Result<std::unique_ptr<device::Device>> open_fallback(const config::Device& device,
                                                      uint32_t threads) {
  device::DeviceOptions options{.kind = "host", .dtype = device.dtype, .num_threads = threads};
  options.reason = "the GPU has failed";
  auto opened = device::open_device(options);
  if (opened || opened.error().code != Code::kUnsupported) return opened;
  options.dtype = "auto";
  return device::open_device(options);
}

// Makes the data plane. With a takeover, its ports stay closed for now.
Result<std::unique_ptr<pipeline::Pipeline>> create_pipeline(const config::Config& config,
                                                            const Clock& clock,
                                                            const serving::Takeover* takeover) {
  uint64_t seed = 0;
  randombytes_buf(&seed, sizeof seed);
  Random random(seed);
  // The secret is new in every process, also in a handover, so that no datagram captured before
  // runs afterwards. Clients get a new token with the next answer.
  wire::Key token_secret;
  randombytes_buf(token_secret.data(), token_secret.size());
  if (takeover != nullptr)
    return pipeline::Pipeline::create_beside(config, clock, token_secret, random,
                                             takeover->port_infos());
  return pipeline::Pipeline::create(config, clock, token_secret, random);
}

// Leaves `checker` empty if the configuration wants none.
Status start_model_checker(const config::Process& process, const Launch& launch,
                           const pipeline::CpuPlan& cpus,
                           std::unique_ptr<serving::ModelChecker>& checker) {
  if (process.model_check == "off") return {};
  ITIF_ASSIGN(checker, serving::ModelChecker::start(
                           {.program = launch.program,
                            .cpus = cpus.executor_cpus,
                            .limits = {.memory_bytes = process.model_check_memory_bytes,
                                       .time_ns = process.model_check_time_ns}}));
  return {};
}

Status old_process_ended() {
  return fail(Code::kUnavailable, "the process that hands over has ended before the switch");
}

// Gives the device's memory that other processes have freed to this one.
void regain_memory(device::Device& device) {
  auto* const memory = dynamic_cast<device::RegainedMemory*>(&device);
  if (const size_t bytes = memory != nullptr ? memory->regain_memory() : 0; bytes > 0)
    log::info("{} of the device's memory are free again: its limit is {} now", format_bytes(bytes),
              format_bytes(memory->memory_bytes()));
}

// Waits for SIGTERM or SIGINT, and meanwhile for the end of the process that has handed over, which
// frees memory of the device.
int wait_for_stop_signal(serving::MainLoop& loop, serving::Takeover* takeover,
                         device::Device& device) {
  int signal = 0;
  if (takeover != nullptr) {
    constexpr uint64_t kPeriodNs = 50'000'000;
    while (!takeover->old_process_has_ended())
      if ((signal = loop.wait(kPeriodNs)) != 0) return signal;
    // A driver may need seconds to free all memory of a process.
    constexpr uint64_t kMeasuringPeriodNs = 1'000'000'000;
    constexpr int kNumMeasurements = 30;
    for (int i = 0; i < kNumMeasurements; ++i) {
      regain_memory(device);
      if ((signal = loop.wait(kMeasuringPeriodNs)) != 0) return signal;
    }
  }
  return loop.wait();
}

// Serves until SIGTERM or SIGINT, or until another process has taken over. A second signal ends the
// process during the drain. `takeover`: of a process that hands over to this one; or nullptr.
Status serve(const config::Config& config, const Launch& launch, serving::Takeover* takeover) {
  ITIF_ASSIGN(const auto account, serving::find_account(config.process));
  const SystemClock clock;
  serving::MainLoop loop(clock);
  // Before opening ports, fail on another itifd, a damaged registry or a missing device.
  const control::ServerOptions control_options = server_options(config.control);
  ITIF_ASSIGN(auto server, takeover != nullptr
                               ? control::Server::open_beside(control_options, clock)
                               : control::Server::open(control_options, clock));
  ITIF_TRY(pipeline::check_cpus(config.device.cpus));
  ITIF_ASSIGN(const auto cpus, pipeline::plan_cpus(config, pipeline::usable_cpus()));
  // By default one thread per CPU that executors may use.
  const auto threads = config.device.threads != 0
                           ? config.device.threads
                           : static_cast<uint32_t>(cpus.executor_cpus.size());
  ITIF_ASSIGN(auto opened_device,
              device::open_device({.kind = config.device.kind,
                                   .ordinal = config.device.ordinal,
                                   .dtype = config.device.dtype,
                                   .attention = config.device.attention,
                                   .slices = config.device.slices,
                                   .num_threads = threads,
                                   .memory_limit_bytes = config.device.memory_bytes}));
  if (takeover != nullptr)
    ITIF_TRY(takeover->check_device(config.device.kind, opened_device->info()));
  const EalSession eal_session;
  ITIF_ASSIGN(const net::EalPlan eal, start_environment(config, cpus, takeover));
  ITIF_ASSIGN(auto plane, create_pipeline(config, clock, takeover));
  // Destroyed before `plane`, whose packet memory is registered with its devices.
  serving::DeviceTable devices(std::move(opened_device));
  const device::DeviceInfo& info = devices.preferred().info();
  if (info.kind != "host")
    devices.add_fallback([&config, threads] { return open_fallback(config.device, threads); });
  if (const Status registered = plane->register_packet_memory(devices.preferred()); !registered)
    log::warning("{}: packets in that memory are copied before the device reads them",
                 registered.error().message);
  std::unique_ptr<serving::ModelChecker> checker;  // of `service`
  serving::TenantService service(*plane, devices, clock, config, cpus.executor_cpus);
  if (devices.has_fallback())
    service.on_device_failed([&server] { server->leave_failed_device(); });
  serving::GroupWatch watch(*plane, service, clock);
  const serving::ApplianceDocuments documents(config, clock, devices, *plane, service, watch);
  std::unique_ptr<telemetry::PrometheusEndpoint> prometheus;
  const auto start_prometheus = [&]() -> Status {
    if (config.telemetry.prometheus.empty()) return {};
    ITIF_ASSIGN(prometheus, telemetry::PrometheusEndpoint::start(config.telemetry.prometheus, [&] {
                  return serving::collect_metrics(*plane, service, watch);
                }));
    return {};
  };
  const serving::DpdkTelemetry dpdk_telemetry(*plane, service);
  server->attach(service, documents);  // before the first packet
  serving::ProcessHandover handover(
      {.program = launch.program,
       .config_file = launch.config_file,
       .cpus = launch.cpus,
       .eal_args = eal.args,
       .has_hugepages = !eal.no_huge,
       .device = info.kind},
      {.clock = clock,
       .config = config,
       .plane = *plane,
       .service = service,
       .server = *server,
       .stop_metrics = [&] { prometheus.reset(); },
       .start_metrics = start_prometheus,
       .end = [] { ::kill(::getpid(), SIGTERM); },
       .predecessor = [takeover] { return takeover != nullptr ? takeover->old_process() : 0; }});
  server->use_handover(handover);
  // With a takeover, the ports and endpoints are the other process's until all models are loaded.
  const bool starts_late = takeover != nullptr || replays_capture(*plane);
  if (takeover == nullptr) ITIF_TRY(start_prometheus());
  if (!starts_late) ITIF_TRY(start_ports(*plane));
  ITIF_TRY(serving::leave_root(account, config, *plane, takeover != nullptr));
  // Starts the checker as itifd's new user, and before a filter may forbid programs.
  ITIF_TRY(start_model_checker(config.process, launch, cpus, checker));
  if (checker)
    service.check_models_with([&checker](const auto& files, const auto& gives_up) {
      return checker->check(files, gives_up);
    });
  // The filter is not tested with a GPU's driver, so the kernel only logs the calls outside of it.
  std::string seccomp = config.process.seccomp;
  if (seccomp == "auto") seccomp = info.kind == "cuda" ? "log" : "refuse";
  ITIF_TRY(serving::install_seccomp_filter({.mode = seccomp,
                                            .starts_programs = config.process.handover,
                                            .loads_bpf = opens_af_xdp(*plane)}));
  server->start();
  serving::report_start(loop, service);
  // Poll for signals meanwhile: restoring many tenants takes minutes.
  constexpr uint64_t kSignalPeriodNs = 50'000'000;
  int signal = 0;
  bool is_wanted = true;
  while (signal == 0 && is_wanted && !server->wait_restored(kSignalPeriodNs)) {
    signal = loop.wait(0);
    is_wanted = takeover == nullptr || takeover->still_wanted(service);
  }
  if (signal == 0 && starts_late) {
    const auto start_late = [&]() -> Status {
      if (takeover == nullptr) return start_ports(*plane);
      return takeover->finish(*plane, service, [&]() -> Status {
        ITIF_TRY(server->take_over());
        ITIF_TRY(start_prometheus());
        return start_ports(*plane);
      });
    };
    if (!is_wanted) service.cancel();
    if (Status started = is_wanted ? start_late() : old_process_ended(); !started) {
      server->stop();
      return started;
    }
  }
  if (signal == 0) {
    log::info("ready: {} tenants, {} workers, device {} {}", service.num_loaded(),
              plane->workers().size(), info.kind, compute_name(info.compute));
    loop.announce_ready(fmt::format("Serving {} tenants", service.num_loaded()));
    serving::answer_watchdog(loop, clock, *server, *plane);
    signal = wait_for_stop_signal(loop, takeover, devices.preferred());
  }
  if (handover.done()) {
    log::info("handed over to another process");
  } else {
    log::info("{}: draining for at most {}", signal == SIGTERM ? "SIGTERM" : "SIGINT",
              format_duration_ns(config.drain_timeout_ns));
    serving::report_stop(config.drain_timeout_ns);
    // Unblock the signals, so that a second one ends the process immediately.
    serving::MainLoop::release_stop_signals();
    if (const auto left = server->drain(config.drain_timeout_ns); left && *left > 0)
      log::warning("{} requests were still in flight when the drain timed out", *left);
  }
  server->stop();
  plane->stop();
  log::info("stopped");
  return {};
}

int run(int argc, char** argv) {
  CLI::App cli("itifd: the itif appliance. Serves transformer models of many tenants over UDP.");
  std::string config_file = ITIF_SYSCONFDIR "/itif/itifd.conf";
  bool check_only = false;
  Launch launch{.config_file = {}, .program = own_program()};
  sched_getaffinity(0, sizeof launch.cpus, &launch.cpus);
  cli.add_option("-c,--config", config_file, "configuration file")->capture_default_str();
  cli.add_flag("--check", check_only, "check the configuration file and exit");
  // For `itifctl handover` only: the descriptor of the channel to the process that hands over.
  cli.add_option("--take-over", launch.take_over)->group("");
  cli.set_version_flag("--version", "itifd " ITIF_VERSION);
  cli.footer(
      "Administration: itifctl. Every key of the configuration: conf/itifd.conf.\n"
      "Ends on SIGTERM or SIGINT, after answering accepted requests. SIGHUP opens the log file "
      "again.\n"
      "Exit status: 0 stopped, 1 could not start, 2 wrong arguments.");
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return cli.exit(error) == 0 ? 0 : 2;
  }
  auto config = config::load(config_file);
  if (!config) {
    log::error("{}", config.error().message);
    return 1;
  }
  if (check_only) {
    std::printf("%s: ok\n", config_file.c_str());
    return 0;
  }
  if (const auto level = log::parse_level(config->telemetry.log_level)) log::set_level(*level);
  // The process that hands over relays the log until this one serves: it names the reason if this
  // one fails.
  if (launch.take_over < 0 && !config->telemetry.log_file.empty())
    if (const Status opened = log::open_file(config->telemetry.log_file); !opened) {
      log::error("telemetry.log_file: {}", opened.error().message);
      return 1;
    }
  if (const Status limited = serving::limit_process(config->process); !limited) {
    log::error("{}", limited.error().message);
    return 1;
  }
  if (sodium_init() < 0) {
    log::error("cannot initialise libsodium: no source of randomness");
    return 1;
  }
  std::error_code ignored;
  launch.config_file = std::filesystem::absolute(config_file, ignored);
  std::optional<serving::Takeover> takeover;
  if (launch.take_over >= 0) {
    auto begun = serving::Takeover::begin(launch.take_over, *config);
    if (!begun) {
      log::error("{}", begun.error().message);
      return 1;
    }
    takeover.emplace(std::move(*begun));
  }
  if (const Status status = serve(*config, launch, takeover ? &*takeover : nullptr); !status) {
    log::error("{}", status.error().message);
    if (takeover) takeover->report_failure(status.error());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace itif::app

int main(int argc, char** argv) {
  // SIGHUP would end the process until there is a handler.
  ::signal(SIGHUP, SIG_IGN);
  // This process is the checker that an itifd starts to parse models.
  if (argc == 2 && std::string_view(argv[1]) == itif::serving::kModelCheckerArgument)
    return itif::serving::run_model_checker(itif::serving::kCheckerSocket);
  itif::device::limit_pool_spinning(argv);
  itif::serving::MainLoop::prepare_process();
  return itif::app::run(argc, argv);
}
