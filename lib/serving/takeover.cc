#include "serving/takeover.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "net/devices.h"
#include "serving/new_process.h"

namespace itif::serving {
namespace {

constexpr int kHelloTimeoutMs = 10'000;
constexpr int kWaitMs = 1'000;

Status check_ports(const Inheritance& inheritance, const config::Config& config) {
  constexpr const char* kRemedy =
      "a handover keeps the ports' device, num_queues and mtu: restart itifd to change them";
  if (inheritance.ports.size() != config.ports.size())
    return fail(Code::kInvalidArgument,
                fmt::format("the configuration has {} ports and the running itifd {}: {}",
                            config.ports.size(), inheritance.ports.size(), kRemedy));
  for (size_t i = 0; i < config.ports.size(); ++i) {
    const config::Port& ours = config.ports[i];
    const InheritedPort& theirs = inheritance.ports[i];
    if (ours.device != theirs.device || ours.num_queues != theirs.num_queues ||
        ours.mtu != theirs.mtu)
      return fail(
          Code::kInvalidArgument,
          fmt::format("port {} is '{}' with {} queues and an MTU of {} in the configuration, and "
                      "'{}' with {} and {} in the running itifd: {}",
                      i, ours.device, ours.num_queues, ours.mtu, theirs.device, theirs.num_queues,
                      theirs.mtu, kRemedy));
  }
  return {};
}

// The output went to the old process, which relays it until this one serves.
void restore_output(const std::string& log_file) {
  ::dup2(kOutputDescriptor, STDOUT_FILENO);
  ::dup2(kErrorDescriptor, STDERR_FILENO);
  ::close(kOutputDescriptor);
  ::close(kErrorDescriptor);
  const Status opened = log_file.empty() ? Status() : log::open_file(log_file);
  if (log_file.empty()) (void)log::reopen();
  if (!opened) log::warning("{}: the log goes to standard error", opened.error().message);
}

}  // namespace

Result<Takeover> Takeover::begin(int fd, const config::Config& config) {
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode))
    return fail(Code::kInvalidArgument,
                "--take-over is for `itifctl handover`, which starts this program itself");
  HandoverChannel channel{control::Descriptor(fd)};
  const HandoverChannel::Received hello = channel.receive(kHelloTimeoutMs);
  const bool is_too_long = hello.too_long_bytes > 0;
  if (hello.step() != "hello" && !is_too_long)
    return fail(Code::kUnavailable, "the process that hands over has ended or says nothing");
  auto inheritance = is_too_long ? Result<Inheritance>(std::unexpected(too_long(hello, "hello")))
                                 : inheritance_from(hello.message);
  Status usable = inheritance ? check_ports(*inheritance, config)
                              : Status(std::unexpected(inheritance.error()));
  Takeover takeover(std::move(channel), inheritance ? std::move(*inheritance) : Inheritance(),
                    config.telemetry.log_file);
  if (usable) return takeover;
  takeover.report_failure(usable.error());
  return std::unexpected(usable.error());
}

std::vector<net::PortInfo> Takeover::port_infos() const {
  std::vector<net::PortInfo> infos;
  for (const InheritedPort& port : inheritance_.ports) infos.push_back(port.info);
  return infos;
}

Result<net::EalPlan> Takeover::eal_plan(const std::vector<std::string>& args, uint32_t needed_mb) {
  net::DeviceArgs split = net::split_devices(args);
  devices_ = std::move(split.devices);
  // Two names are enough, because two processes at most live at the same time.
  const std::string configured = net::file_prefix(args);
  file_prefix_ = configured == inheritance_.file_prefix ? configured + "-handover" : configured;
  net::EalPlan plan = net::plan_eal(net::with_file_prefix(std::move(split.eal_args), file_prefix_),
                                    net::inspect_hugepages(), needed_mb);
  if (!plan.warning.empty() && inheritance_.has_hugepages)
    return fail(Code::kResourceExhausted,
                fmt::format("the hugepages do not suffice for two processes: {}: reserve more for "
                            "the time of the handover, or restart itifd",
                            plan.warning));
  net::unlink_telemetry(file_prefix_);
  return plan;
}

Status Takeover::check_device(const std::string& configured,
                              const device::DeviceInfo& opened) const {
  const bool had_gpu = !inheritance_.device.empty() && inheritance_.device != "host";
  if (configured != "auto" || opened.kind != "host" || !had_gpu) return {};
  return fail(Code::kUnavailable,
              fmt::format("the running itifd has a GPU, which the new process cannot use: {}: set "
                          "device.kind to host to serve without it",
                          opened.reason));
}

bool Takeover::still_wanted(const TenantService& service) {
  const std::vector<TenantInfo> tenants = service.list();
  const auto done = std::ranges::count_if(tenants, [](const TenantInfo& tenant) {
    return tenant.condition != tenant::Condition::kLoading;
  });
  const double fraction =
      tenants.empty() ? 1 : static_cast<double>(done) / static_cast<double>(tenants.size());
  const bool wanted =
      channel_.send("progress", {{"stage", "loading tenants"}, {"fraction", fraction}});
  if (!wanted) restore_output(log_file_);
  return wanted;
}

std::string active_failure(const TenantInfo& tenant) {
  if (tenant.condition == tenant::Condition::kLoaded) return "";
  return tenant.failure.empty() ? "it is not loaded yet" : tenant.failure;
}

// A model that the old process has not loaded either does not stop the handover.
Status Takeover::check_tenants(const TenantService& service) const {
  const auto lists = [](const std::vector<uint32_t>& ids, const TenantInfo& tenant) {
    return std::ranges::find(ids, tenant.record.id) != ids.end();
  };
  for (const TenantInfo& tenant : service.list()) {
    if (lists(inheritance_.failed_tenants, tenant)) continue;
    if (const std::string failure = active_failure(tenant); !failure.empty())
      return fail(Code::kUnavailable, fmt::format("the model of tenant '{}' cannot be loaded: {}",
                                                  tenant.record.name, failure));
    if (lists(inheritance_.failed_canaries, tenant)) continue;
    if (!tenant.canary_failure.empty())
      return fail(Code::kUnavailable, fmt::format("the canary of tenant '{}' cannot be loaded: {}",
                                                  tenant.record.name, tenant.canary_failure));
  }
  return {};
}

bool Takeover::wait_for(const std::string& step) {
  for (;;) {
    const HandoverChannel::Received received = channel_.receive(kWaitMs);
    if (received.ended) return false;
    if (received.too_long_bytes > 0) log::warning("{}", too_long(received, step).message);
    if (received.step() == step) return true;
  }
}

Status Takeover::finish(pipeline::Pipeline& plane, const TenantService& service,
                        const std::function<Status()>& serve) {
  ITIF_TRY(check_tenants(service));
  channel_.send("loaded");
  if (!wait_for("open")) {
    restore_output(log_file_);
    return fail(Code::kUnavailable, "the process that hands over has ended before the switch");
  }
  for (const InheritedPort& port : inheritance_.ports)
    for (std::string& device : devices_)
      if (device.substr(0, device.find(',')) == port.info.device)
        device = net::with_mac(device, port.info.mac);
  ITIF_TRY(net::attach_devices(devices_));
  ITIF_TRY(plane.open_ports());
  channel_.send("opened");
  const bool alive = wait_for("serve");
  restore_output(log_file_);
  if (!alive) log::warning("the process that hands over has ended during the switch: going on");
  ITIF_TRY(serve());
  channel_.send("serving");
  return {};
}

void Takeover::report_failure(const Error& error) {
  channel_.send("failed", {{"code", static_cast<int>(error.code)}, {"message", error.message}});
}

bool Takeover::old_process_has_ended() {
  if (!channel_.receive(0).ended) return false;
  net::link_telemetry(inheritance_.file_prefix, file_prefix_);
  log::info("the process before this one has ended");
  return true;
}

pid_t Takeover::old_process() const {
  return channel_.has_ended() ? 0 : old_process_;
}

}  // namespace itif::serving
