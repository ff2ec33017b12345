// itifd, the appliance: builds objects and threads from the configuration, and stops them in the
// reverse order.
#include <pthread.h>
#include <signal.h>
#include <sodium.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "control/server.h"
#include "device/host/pool_wait.h"
#include "net/announce.h"
#include "net/eal.h"
#include "pipeline/lcores.h"
#include "serving/appliance_documents.h"
#include "serving/dpdk_telemetry.h"
#include "serving/metrics.h"
#include "telemetry/prometheus.h"

namespace itif::app {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// Returns 0 if no signal is pending.
int pending_stop_signal() {
  const sigset_t signals = stop_signals();
  const timespec no_wait{};
  return std::max(0, sigtimedwait(&signals, nullptr, &no_wait));
}

control::ServerOptions server_options(const config::Control& control) {
  return {.endpoint = control.endpoint,
          .events_endpoint = control.events_endpoint,
          .tcp_endpoint = control.tcp_endpoint,
          .curve_secret_file = control.curve_secret_file,
          .authorized_keys_file = control.authorized_keys_file,
          .state_dir = control.state_dir};
}

struct EalSession {
  ~EalSession() { net::stop_eal(); }
};

Status start_environment(const config::Config& config, const pipeline::CpuPlan& cpus) {
  const net::EalPlan eal =
      net::plan_eal(cpus.eal_args, net::inspect_hugepages(), pipeline::needed_memory_mb(config));
  if (!eal.warning.empty()) log::warning("{}", eal.warning);
  return net::start_eal(eal.args);
}

// Returns true if a port replays a capture. Such a port must start after the tenants' models are
// loaded: the replay begins when the port starts, and its requests are not repeated.
bool replays_capture(const pipeline::Pipeline& plane) {
  return std::ranges::any_of(plane.ports(),
                             [](const auto& port) { return port->info().driver == "net_pcap"; });
}

Status start_ports(pipeline::Pipeline& plane) {
  for (const auto& worker : plane.workers())
    if (worker->options().queue == 0)
      net::announce(worker->port(), worker->options().pool,
                    net::announcements(worker->options().local));
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

// Serves until SIGTERM or SIGINT. A second signal ends the process during the drain.
Status serve(const config::Config& config) {
  const SystemClock clock;
  // Before opening ports, fail on another itifd, a damaged registry or a missing device.
  ITIF_ASSIGN(auto server, control::Server::open(server_options(config.control), clock));
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
                                   .num_threads = threads,
                                   .memory_limit_bytes = config.device.memory_bytes}));
  const EalSession eal_session;
  ITIF_TRY(start_environment(config, cpus));

  wire::Key token_secret;
  uint64_t seed = 0;
  randombytes_buf(token_secret.data(), token_secret.size());
  randombytes_buf(&seed, sizeof seed);
  Random random(seed);
  ITIF_ASSIGN(auto plane, pipeline::Pipeline::create(config, clock, token_secret, random));
  // Destroyed before `plane`, whose packet memory is registered with its devices.
  serving::DeviceTable devices(std::move(opened_device));
  const device::DeviceInfo& info = devices.preferred().info();
  if (info.kind != "host")
    devices.add_fallback([&config, threads] { return open_fallback(config.device, threads); });
  if (const Status registered = plane->register_packet_memory(devices.preferred()); !registered)
    log::warning("{}: packets in that memory are copied before the device reads them",
                 registered.error().message);
  serving::TenantService service(*plane, devices, clock, config, cpus.executor_cpus);
  if (devices.has_fallback())
    service.on_device_failed([&server] { server->leave_failed_device(); });
  serving::GroupWatch watch(*plane, service, clock);
  const serving::ApplianceDocuments documents(config, clock, devices, *plane, service, watch);
  std::unique_ptr<telemetry::PrometheusEndpoint> prometheus;
  if (!config.telemetry.prometheus.empty()) {
    ITIF_ASSIGN(prometheus, telemetry::PrometheusEndpoint::start(config.telemetry.prometheus, [&] {
                  return serving::collect_metrics(*plane, service, watch);
                }));
  }
  const serving::DpdkTelemetry dpdk_telemetry(*plane, service);
  server->attach(service, documents);  // before the first packet
  const bool replays = replays_capture(*plane);
  if (!replays) ITIF_TRY(start_ports(*plane));
  server->start();
  // Poll for signals meanwhile: restoring many tenants takes minutes.
  constexpr uint64_t kSignalPeriodNs = 50'000'000;
  int signal = 0;
  while (signal == 0 && !server->wait_restored(kSignalPeriodNs)) signal = pending_stop_signal();
  if (signal == 0 && replays) {
    if (Status started = start_ports(*plane); !started) {
      server->stop();
      return started;
    }
  }
  if (signal == 0) {
    log::info("ready: {} tenants, {} workers, device {} {}", service.num_loaded(),
              plane->workers().size(), info.kind, compute_name(info.compute));
    const sigset_t signals = stop_signals();
    sigwait(&signals, &signal);
  }
  log::info("{}: draining for at most {}", signal == SIGTERM ? "SIGTERM" : "SIGINT",
            format_duration_ns(config.drain_timeout_ns));
  // Unblock the signals, so that a second one ends the process immediately.
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  if (const auto left = server->drain(config.drain_timeout_ns); left && *left > 0)
    log::warning("{} requests were still in flight when the drain timed out", *left);
  server->stop();
  plane->stop();
  log::info("stopped");
  return {};
}

int run(int argc, char** argv) {
  CLI::App cli("itifd: the itif appliance. Serves transformer models of many tenants over UDP.");
  std::string config_file = ITIF_SYSCONFDIR "/itif/itifd.conf";
  bool check_only = false;
  cli.add_option("-c,--config", config_file, "configuration file")->capture_default_str();
  cli.add_flag("--check", check_only, "check the configuration file and exit");
  cli.set_version_flag("--version", "itifd " ITIF_VERSION);
  cli.footer(
      "Administration: itifctl. Every key of the configuration: conf/itifd.conf.\n"
      "Ends on SIGTERM or SIGINT, after answering accepted requests.\n"
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
  // Block before any thread starts, so that only the main thread gets these signals.
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (sodium_init() < 0) {
    log::error("cannot initialise libsodium: no source of randomness");
    return 1;
  }
  if (const Status status = serve(*config); !status) {
    log::error("{}", status.error().message);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace itif::app

int main(int argc, char** argv) {
  itif::device::limit_pool_spinning(argv);
  return itif::app::run(argc, argv);
}
