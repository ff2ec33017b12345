// itif-loadgen as the sender of a flood, over memif or through the kernel's sockets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingest/child.h"
#include "wire/datagram.h"

namespace itif::bench {

// The server's end of a memif; the sender's is the other.
inline constexpr const char* kServerMac = "02:00:00:00:00:01";
// Its EAL device, with the arguments.
std::string memif_server(const std::string& socket);

struct FloodOptions {
  std::string program;  // itif-loadgen
  int cpu = 0;
  std::string folder;  // of its output, and of the memif's socket "memif.sock"
  wire::Auth auth = wire::Auth::kHeader;
  wire::Key key{};                     // of the tenant WorkerRig::tenant_id(0)
  std::string payload = "tokens_u16";  // --payload of itif-loadgen
  uint32_t num_tokens = 32;            // of requests of tokens
  uint32_t fragment_bytes = 64;
};

// Both flood until they are ended. Errors: those of Child::start.
// `resolves`: the receiver answers ARP.
Result<Child> flood_memif(const FloodOptions& options, bool resolves);
Result<Child> flood_sockets(const FloodOptions& options, uint16_t port);

}  // namespace itif::bench
