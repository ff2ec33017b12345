#include "ingest/senders.h"

#include <fmt/format.h>
#include <unistd.h>

#include "ingest/worker_rig.h"

namespace itif::bench {
namespace {

// Longer than any measurement, so that the sender ends when it is told to.
constexpr const char* kDuration = "3600s";

std::string tenant_of(const FloodOptions& options) {
  std::string key;
  for (const std::byte byte : options.key)
    key += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return fmt::format("bench:{}:{}:{}:{}", WorkerRig::tenant_id(0), key, WorkerRig::kKeyEpoch,
                     wire::auth_name(options.auth));
}

std::vector<std::string> flood_of(const FloodOptions& options, const char* server) {
  return {options.program,
          server,
          "--tenant",
          tenant_of(options),
          "--flood",
          "--duration",
          kDuration,
          "--payload",
          options.payload,
          "--lengths",
          fmt::format("fixed:{}", options.num_tokens),
          "--fragment-bytes",
          std::to_string(options.fragment_bytes),
          "--quiet"};
}

}  // namespace

std::string memif_server(const std::string& socket) {
  return fmt::format("net_memif0,role=server,rsize=11,mac={},socket-abstract=no,socket={}",
                     kServerMac, socket);
}

Result<Child> flood_memif(const FloodOptions& options, bool resolves) {
  std::vector<std::string> command = flood_of(options, WorkerRig::kOurIp);
  const std::string eal = fmt::format(
      "--no-shconf --no-huge -m 256 --no-pci --no-telemetry --lcores=0@{} "
      "--vdev=net_memif0,role=client,rsize=11,socket-abstract=no,socket={}/memif.sock",
      options.cpu, options.folder);
  command.insert(command.end(), {"--local-ip", WorkerRig::kClientIp, "--eal", eal});
  if (!resolves) command.insert(command.end(), {"--server-mac", kServerMac});
  return Child::start(std::move(command), std::to_string(options.cpu),
                      options.folder + "/loadgen.txt");
}

Result<Child> flood_sockets(const FloodOptions& options, uint16_t port) {
  std::vector<std::string> command = flood_of(options, "127.0.0.1");
  command.insert(command.end(), {"--port", std::to_string(port)});
  return Child::start(std::move(command), std::to_string(options.cpu),
                      options.folder + "/loadgen.txt");
}

}  // namespace itif::bench
