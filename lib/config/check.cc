#include "config/check.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/un.h>

#include <charconv>
#include <set>
#include <string_view>

namespace itif::config {
namespace {

// The longest path of a Unix socket: sun_path less its terminating zero.
constexpr size_t kMaxSocketPath = sizeof(sockaddr_un::sun_path) - 1;

bool parse_number(std::string_view text, unsigned max, unsigned& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && out <= max;
}

bool is_prefix(const std::string& text, int family) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  unsigned bits = 0;
  if (!parse_number(std::string_view(text).substr(slash + 1), family == AF_INET ? 32 : 128, bits))
    return false;
  unsigned char address[16];
  return inet_pton(family, text.substr(0, slash).c_str(), address) == 1;
}

// "HOST:PORT" with a host that is not empty; "[::1]:9464" for IPv6.
bool is_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  unsigned port = 0;
  return colon != std::string_view::npos && colon > 0 &&
         parse_number(text.substr(colon + 1), 65535, port) && port > 0;
}

class Checker {
 public:
  Checker(const Config& config, const std::string& path) : config_(config), path_(path) {}

  Status run() {
    ITIF_TRY(ports());
    ITIF_TRY(data_plane());
    ITIF_TRY(device());
    ITIF_TRY(batching());
    ITIF_TRY(endpoint("control.endpoint", config_.control.endpoint));
    ITIF_TRY(endpoint("control.events_endpoint", config_.control.events_endpoint));
    ITIF_TRY(control());
    return telemetry();
  }

 private:
  template <class... Args>
  std::unexpected<Error> refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::kInvalidArgument,
                path_ + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  Status ports() const {
    if (config_.ports.empty())
      return refuse("ports is empty: list at least one port, as in conf/itifd.conf");
    std::set<std::string> addresses, devices;
    for (size_t i = 0; i < config_.ports.size(); ++i) {
      const Port& port = config_.ports[i];
      if (port.device.empty() && config_.ports.size() > 1)
        return refuse("ports[{}].device is empty: with several ports each needs its device", i);
      if (!devices.insert(port.device).second)
        return refuse("ports[{}].device: '{}' is listed twice", i, port.device);
      if (port.ipv4.empty() && port.ipv6.empty())
        return refuse("ports[{}] has no address: set ipv4 or ipv6, as in \"198.18.0.1/24\"", i);
      for (const std::string& text : port.ipv4) {
        if (!is_prefix(text, AF_INET))
          return refuse(
              "ports[{}].ipv4: '{}' is not an address with a prefix, as in "
              "\"198.18.0.1/24\"",
              i, text);
        if (!addresses.insert(text.substr(0, text.find('/'))).second)
          return refuse("ports[{}].ipv4: {} is listed twice", i, text);
      }
      for (const std::string& text : port.ipv6) {
        if (!is_prefix(text, AF_INET6))
          return refuse(
              "ports[{}].ipv6: '{}' is not an address with a prefix, as in "
              "\"fd00::1/64\"",
              i, text);
        if (!addresses.insert(text.substr(0, text.find('/'))).second)
          return refuse("ports[{}].ipv6: {} is listed twice", i, text);
      }
      if (port.num_workers != 0 && port.num_workers < port.num_queues)
        return refuse(
            "ports[{}].num_workers {} is less than num_queues {}: each queue has a worker", i,
            port.num_workers, port.num_queues);
      if (port.path_mtu > port.mtu)
        return refuse("ports[{}].path_mtu {} is larger than its mtu {}", i, port.path_mtu,
                      port.mtu);
      const uint32_t smallest = port.ipv6.empty() ? 576 : 1280;
      const uint32_t path_mtu = port.path_mtu != 0 ? port.path_mtu : port.mtu;
      if (path_mtu < smallest)
        return refuse("ports[{}]: {} {} is less than the {} that {} needs", i,
                      port.path_mtu != 0 ? "path_mtu" : "mtu", path_mtu, smallest,
                      port.ipv6.empty() ? "IPv4" : "IPv6");
    }
    return {};
  }

  Status data_plane() const {
    const DataPlane& plane = config_.data_plane;
    uint64_t workers = 0, descriptors = 0;
    for (const Port& port : config_.ports) {
      workers += port.workers();
      descriptors += uint64_t{port.workers()} * (port.rx_descriptors + port.tx_descriptors);
    }
    if (workers > kMaxWorkers)
      return refuse(
          "ports ask for {} workers together (the sum of num_workers, or num_queues where that is "
          "0): the limit is {}",
          workers, kMaxWorkers);
    if (!plane.worker_lcores.empty() && plane.worker_lcores.size() != workers)
      return refuse(
          "data_plane.worker_lcores lists {} lcores for {} workers (the sum of the ports' "
          "num_workers or num_queues): list one per worker, or none",
          plane.worker_lcores.size(), workers);
    if (std::set<unsigned>(plane.worker_lcores.begin(), plane.worker_lcores.end()).size() !=
        plane.worker_lcores.size())
      return refuse("data_plane.worker_lcores lists an lcore twice");
    if (plane.mbufs < descriptors)
      return refuse(
          "data_plane.mbufs {} is less than the {} that the ports' descriptors can hold: "
          "raise it or lower rx_descriptors and tx_descriptors",
          plane.mbufs, descriptors);
    if (plane.tenant_max_contexts > plane.max_contexts)
      return refuse("data_plane.tenant_max_contexts {} is larger than max_contexts {}",
                    plane.tenant_max_contexts, plane.max_contexts);
    if (plane.tenant_max_held_bytes > plane.max_held_bytes)
      return refuse(
          "data_plane.tenant_max_held_bytes {} bytes is larger than max_held_bytes {} bytes",
          plane.tenant_max_held_bytes, plane.max_held_bytes);
    return {};
  }

  // With kind "auto", device::open_device() refuses an ordinal if no such GPU can be used.
  Status device() const {
    const Device& device = config_.device;
    if (device.kind == "host" && device.ordinal != 0)
      return refuse(
          "device.ordinal {} names a GPU, but device.kind is \"host\": use \"cuda\" or \"auto\", "
          "or ordinal 0",
          device.ordinal);
    const std::set<unsigned> cpus(device.cpus.begin(), device.cpus.end());
    if (cpus.size() < device.cpus.size()) return refuse("device.cpus names a CPU twice");
    if (!cpus.empty() && device.threads > cpus.size())
      return refuse("device.threads is {}, but device.cpus has {}: at most one thread per CPU",
                    device.threads, cpus.size());
    return {};
  }

  Status batching() const {
    constexpr uint32_t kLeastTokens = 16;
    const uint32_t tokens = config_.batching.max_tokens;
    if (tokens != 0 && tokens < kLeastTokens)
      return refuse("batching.max_tokens {} is less than {}; 0 stands for the device's default",
                    tokens, kLeastTokens);
    return {};
  }

  // Local endpoints have no authentication; only the mode of the ipc socket file protects them.
  Status endpoint(const char* key, const std::string& value) const {
    constexpr std::string_view kIpc = "ipc://";
    if (!value.starts_with(kIpc) || value.size() == kIpc.size())
      return refuse(
          "{}: '{}' is not an ipc endpoint, as in \"ipc:///run/itif/control.sock\" (for "
          "TCP, which needs keys, set control.tcp_endpoint)",
          key, value);
    if (value.size() - kIpc.size() > kMaxSocketPath)
      return refuse("{}: the path of '{}' is longer than the {} bytes that a Unix socket allows",
                    key, value, kMaxSocketPath);
    return {};
  }

  Status control() const {
    const Control& control = config_.control;
    if (control.endpoint == control.events_endpoint)
      return refuse("control.endpoint and control.events_endpoint are both '{}'", control.endpoint);
    if (control.state_dir.empty()) return refuse("control.state_dir is empty: name a directory");
    if (control.tcp_endpoint.empty()) return {};
    constexpr std::string_view kTcp = "tcp://";
    if (!control.tcp_endpoint.starts_with(kTcp) ||
        !is_host_port(std::string_view(control.tcp_endpoint).substr(kTcp.size())))
      return refuse(
          "control.tcp_endpoint: '{}' is not a TCP endpoint, as in \"tcp://0.0.0.0:9010\"",
          control.tcp_endpoint);
    if (control.curve_secret_file.empty() || control.authorized_keys_file.empty())
      return refuse(
          "control.tcp_endpoint needs curve_secret_file and authorized_keys_file: make "
          "them with itifctl keygen (there is no unauthenticated TCP)");
    return {};
  }

  Status telemetry() const {
    const std::string& log_file = config_.telemetry.log_file;
    if (!log_file.empty() && log_file.front() != '/')
      return refuse("telemetry.log_file: '{}' is not an absolute path", log_file);
    const std::string& address = config_.telemetry.prometheus;
    if (address.empty() || is_host_port(address)) return {};
    return refuse("telemetry.prometheus: '{}' is not HOST:PORT, as in \"127.0.0.1:9464\"", address);
  }

  const Config& config_;
  const std::string& path_;
};

}  // namespace

Status check(const Config& config, const std::string& path) {
  return Checker(config, path).run();
}

}  // namespace itif::config
