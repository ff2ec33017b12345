// Workers of the appliance with all that they need: tenants, and a group that computes nothing. One
// thread uses all of it, except that each worker may be polled by a thread of its own.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "ingest/stub_group.h"
#include "net/port.h"
#include "pipeline/worker.h"

namespace itif::bench {

struct RigOptions {
  wire::Auth auth = wire::Auth::kHeader;  // of the tenants
  uint32_t num_tenants = 1;
  uint32_t max_contexts = 16384;  // a tenant may take as many as are free
  bool refuses = false;           // every request, with the status `overloaded`
  uint16_t first_worker = 0;      // their ids begin here; no two rigs have the same id
  uint16_t num_workers = 1;       // of each port, which has one queue: software spreads flows
};

class WorkerRig {
 public:
  static constexpr const char* kOurIp = "198.18.0.1";
  static constexpr const char* kClientIp = "198.18.0.2";
  static constexpr uint16_t kKeyEpoch = 3;

  // `ports`, `pool` (for what the workers send) and `clock` outlive the rig. Errors: those of
  // Worker::create.
  static Result<std::unique_ptr<WorkerRig>> make(std::span<const net::Port* const> ports,
                                                 rte_mempool* pool, const RigOptions& options,
                                                 const Clock& clock);
  static Result<std::unique_ptr<WorkerRig>> make(const net::Port& port, rte_mempool* pool,
                                                 const RigOptions& options, const Clock& clock) {
    const net::Port* const ports[] = {&port};
    return make(ports, pool, options, clock);
  }

  pipeline::Worker& worker() noexcept { return *workers_.front(); }
  // Those of each port in turn; the first of a port owns its queue.
  std::span<const std::unique_ptr<pipeline::Worker>> workers() const noexcept { return workers_; }
  StubGroup& group() noexcept { return *group_; }
  static uint32_t tenant_id(size_t i) noexcept { return 100 + static_cast<uint32_t>(i); }
  // The tenants' keys.
  const std::vector<wire::Key>& keys() const noexcept { return keys_; }
  // Returns the address token of a client at the number `port` of the ports.
  uint64_t token(const net::Endpoint& client, uint32_t session, size_t port) const noexcept;
  uint32_t in_flight() const noexcept { return lease_->num_in_flight(); }

 private:
  WorkerRig(const RigOptions& options, const Clock& clock);
  Status add_workers(const net::Port& port, rte_mempool* pool);
  void publish_tenants();

  const RigOptions options_;
  const std::vector<wire::Key> keys_;
  std::shared_ptr<tenant::Lease> lease_;
  pipeline::Shared shared_;
  std::vector<std::unique_ptr<pipeline::SpreadLane>> lanes_;
  std::vector<std::unique_ptr<pipeline::Worker>> workers_;
  std::unique_ptr<StubGroup> group_;
};

}  // namespace itif::bench
