#include "serving/handover.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/units.h"
#include "net/devices.h"
#include "serving/service_manager.h"
#include "serving/takeover.h"

namespace itif::serving {
namespace {

using nlohmann::json;

constexpr uint64_t kDefaultTimeoutNs = 600'000'000'000;
constexpr int kPollMs = 20;
constexpr uint64_t kSwitchNs = 20'000'000'000;  // to open the ports, and to serve

}  // namespace

Inheritance ProcessHandover::inheritance() const {
  Inheritance inheritance;
  inheritance.file_prefix = net::file_prefix(options_.eal_args);
  inheritance.has_hugepages = options_.has_hugepages;
  inheritance.device = options_.device;
  for (const TenantInfo& tenant : parts_.service.list()) {
    if (!active_failure(tenant).empty())
      inheritance.failed_tenants.push_back(tenant.record.id);
    else if (!tenant.canary_failure.empty())
      inheritance.failed_canaries.push_back(tenant.record.id);
  }
  for (size_t i = 0; i < parts_.config.ports.size(); ++i) {
    const config::Port& port = parts_.config.ports[i];
    inheritance.ports.push_back(
        {port.device, port.num_queues, port.mtu, parts_.plane.ports()[i]->info()});
  }
  return inheritance;
}

std::vector<uint16_t> ProcessHandover::failed_groups() const {
  std::vector<uint16_t> failed;
  for (const GroupInfo& group : parts_.service.groups())
    if (group.device_failed) failed.push_back(group.number);
  return failed;
}

bool ProcessHandover::shares_ports() const {
  return std::ranges::all_of(parts_.plane.ports(), [](const auto& port) {
    return net::can_be_shared(port->info().driver);
  });
}

Result<json> ProcessHandover::run(const control::HandOver& operation,
                                  const control::Progress& progress) {
  if (!parts_.config.process.handover)
    return fail(Code::kUnsupported,
                "process.handover is false in the configuration: this process has given up the "
                "rights that a handover needs: restart itifd instead");
  // A third process would need the name of the first one's EAL files, and memory for three.
  if (const pid_t before = parts_.predecessor(); before != 0)
    return fail(Code::kUnavailable,
                fmt::format("process {}, which has handed over to this one, still answers what it "
                            "accepted: try again when it has ended, after its drain_timeout at the "
                            "latest",
                            before));
  for (const auto& port : parts_.plane.ports())
    if (port->info().driver == "net_pcap")
      return fail(Code::kUnsupported,
                  fmt::format("port {} replays a capture: a new process would replay it again",
                              port->info().device));
  const uint64_t timeout_ns = operation.timeout_ns.value_or(kDefaultTimeoutNs);
  give_up_ns_ = parts_.clock.now_ns() + timeout_ns;
  is_switching_ = false;
  // Groups whose device has just failed serve on another one meanwhile. If there is none, the new
  // process is their only way back.
  if (!failed_groups().empty())
    if (const Status left = parts_.service.leave_failed_device(progress); !left)
      log::warning("handover: {}", left.error().message);
  failed_before_ = failed_groups();
  const std::string& binary = operation.binary.empty() ? options_.program : operation.binary;
  const std::string& config = operation.config.empty() ? options_.config_file : operation.config;
  log::info("handover: starting {} --config {}", binary, config);
  auto process = NewProcess::start({binary, config, options_.cpus, net::runtime_root()});
  Undo undone;
  Result<json> result = process ? run_with(**process, progress, undone)
                                : Result<json>(std::unexpected(process.error()));
  if (result) {
    (*result)["binary"] = binary;
    (*process)->release();
    done_.store(true);
    parts_.end();
    return result;
  }
  // Ends the new process, which may hold the ports and the registry.
  if (process) process->reset();
  const Error error = undo(undone, result.error());
  log::error("handover: {}", error.message);
  return std::unexpected(error);
}

Result<json> ProcessHandover::run_with(NewProcess& process, const control::Progress& progress,
                                       Undo& undo) {
  progress("starting", 0);
  // A long message waits until the new process reads it. Errors show in what it sends.
  process.channel().send("hello", to_json(inheritance()), [&] {
    process.relay_output();
    return cancelled_.load() || parts_.clock.now_ns() >= give_up_ns_;
  });
  ITIF_TRY(wait_for(process, "loaded", progress));
  if (!parts_.service.draining() && !parts_.plane.has_intake(tenant::Intake::kAccept))
    return fail(Code::kUnavailable,
                "a worker has had no CPU time since the last handover failed, and still ignores "
                "requests: this process goes on: try again");
  is_switching_ = true;

  progress("switching", 0);
  uint64_t in_flight = 0;
  const bool shares = shares_ports();
  const uint64_t drain_ns = parts_.config.drain_timeout_ns;
  if (!shares) {
    undo.intake = true;
    in_flight = parts_.service.stop_accepting(tenant::Intake::kIgnore, drain_ns);
    undo.ports = true;
    ITIF_TRY(parts_.plane.detach_ports());
  }
  // Perhaps nobody serves from here on: a new process that hangs is given up soon.
  give_up_ns_ = std::min(give_up_ns_, parts_.clock.now_ns() + kSwitchNs);
  process.channel().send("open");
  ITIF_TRY(wait_for(process, "opened", progress));
  undo.intake = true;
  if (shares) parts_.service.stop_accepting(tenant::Intake::kIgnore, 0);
  undo.server = true;
  ITIF_TRY(parts_.server.release());
  undo.metrics = true;
  parts_.stop_metrics();
  process.channel().send("serve");
  ITIF_TRY(wait_for(process, "serving", progress));
  notify_main_pid(process.pid());

  progress("answering accepted requests", 0);
  if (shares) in_flight = parts_.service.stop_accepting(tenant::Intake::kIgnore, drain_ns);
  process.relay_output();
  const bool took_all = parts_.plane.has_intake(tenant::Intake::kIgnore);
  if (in_flight > 0)
    log::warning("handover: {} requests were still in flight after {}", in_flight,
                 format_duration_ns(drain_ns));
  if (!took_all)
    log::warning("handover: a worker has not handled the packets that waited in its queue after {}",
                 format_duration_ns(drain_ns));
  log::info("handover: process {} serves", process.pid());
  return json{
      {"pid", process.pid()}, {"in_flight", in_flight}, {"drained", in_flight == 0 && took_all}};
}

Status ProcessHandover::wait_for(NewProcess& process, const std::string& step,
                                 const control::Progress& progress) {
  for (;;) {
    const HandoverChannel::Received received = process.channel().receive(kPollMs);
    process.relay_output();
    const json& message = received.message;
    if (received.ended)
      return fail(Code::kUnavailable,
                  fmt::format("the new process {}: this one goes on", process.describe_end()));
    if (received.too_long_bytes > 0) return std::unexpected(too_long(received, step));
    if (received.step() == step) return {};
    if (received.step() == "progress" && message.contains("fraction") &&
        message["fraction"].is_number())
      progress(received.text("stage"), message["fraction"].get<double>());
    if (received.step() == "failed") {
      const auto code = message.find("code");
      const bool is_known = code != message.end() && code->is_number_unsigned() &&
                            code->get<uint64_t>() <= static_cast<uint64_t>(Code::kInternal);
      return fail(is_known ? static_cast<Code>(code->get<uint64_t>()) : Code::kInternal,
                  fmt::format("the new process cannot take over: {}: this one goes on",
                              received.text("message", "no reason given")));
    }
    if (cancelled_.load())
      return fail(Code::kUnavailable, "the handover is cancelled: this process is stopping");
    if (!is_switching_ && failed_groups() != failed_before_)
      return fail(Code::kUnavailable,
                  "the device has failed during the handover: this process goes on, and its groups "
                  "move to another device: then try again");
    if (parts_.clock.now_ns() >= give_up_ns_) {
      const std::string lines = process.last_lines();
      return fail(Code::kUnavailable,
                  fmt::format("the new process did not report '{}' in time: it is ended, and this "
                              "one goes on{}{}{}",
                              step, is_switching_ ? "" : " (--within sets the time)",
                              lines.empty() ? "" : ": its last lines: ", lines));
    }
  }
}

Error ProcessHandover::undo(const Undo& undo, Error error) {
  const auto note = [&error](const Status& status) {
    if (!status) error.message += fmt::format("; and {}", status.error().message);
  };
  if (undo.ports) {
    std::vector<std::string> devices = net::split_devices(parts_.config.eal.args).devices;
    for (const auto& port : parts_.plane.ports())
      for (std::string& device : devices)
        if (device.substr(0, device.find(',')) == port->info().device)
          device = net::with_mac(device, port->info().mac);
    Status opened = net::attach_devices(devices);
    if (opened) opened = parts_.plane.open_ports();
    if (opened) opened = parts_.plane.start();
    note(opened);
  }
  if (undo.intake) parts_.service.resume_from_drain();
  if (undo.server) note(parts_.server.take_back());
  if (undo.metrics) note(parts_.start_metrics());
  return error;
}

}  // namespace itif::serving
