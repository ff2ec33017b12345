// A worker of the appliance with all that it needs: tenants, and a group that computes nothing. One
// thread uses all of it.
#pragma once

#include <memory>
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
};

class WorkerRig {
 public:
  static constexpr const char* kOurIp = "198.18.0.1";
  static constexpr const char* kClientIp = "198.18.0.2";
  static constexpr uint16_t kKeyEpoch = 3;

  // `port`, `pool` (for what the worker sends) and `clock` outlive the rig; one rig at a time.
  // Errors: those of Worker::create.
  static Result<std::unique_ptr<WorkerRig>> make(const net::Port& port, rte_mempool* pool,
                                                 const RigOptions& options, const Clock& clock);

  pipeline::Worker& worker() noexcept { return *worker_; }
  StubGroup& group() noexcept { return *group_; }
  static uint32_t tenant_id(size_t i) noexcept { return 100 + static_cast<uint32_t>(i); }
  // The tenants' keys.
  const std::vector<wire::Key>& keys() const noexcept { return keys_; }
  // Returns the address token of a client.
  uint64_t token(const net::Endpoint& client, uint32_t session) const noexcept;
  uint32_t in_flight() const noexcept { return lease_->num_in_flight(); }

 private:
  WorkerRig(const RigOptions& options, const Clock& clock);

  const RigOptions options_;
  const std::vector<wire::Key> keys_;
  std::shared_ptr<tenant::Lease> lease_;
  pipeline::Shared shared_;
  std::unique_ptr<pipeline::Worker> worker_;
  std::unique_ptr<StubGroup> group_;
};

}  // namespace itif::bench
