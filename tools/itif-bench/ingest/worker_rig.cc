#include "ingest/worker_rig.h"

#include "base/random.h"
#include "telemetry/version_counts.h"

namespace itif::bench {
namespace {

// Far above what a measurement takes: nothing times out, whatever interrupts it.
constexpr uint64_t kTimeoutNs = 60'000'000'000;

std::vector<wire::Key> make_keys(uint32_t num_tenants) {
  std::vector<wire::Key> keys(num_tenants);
  Random random(3);
  for (wire::Key& key : keys)
    for (std::byte& byte : key) byte = static_cast<std::byte>(random.next());
  return keys;
}

}  // namespace

WorkerRig::WorkerRig(const RigOptions& options, const Clock& clock)
    : options_(options),
      keys_(make_keys(options.num_tenants)),
      lease_(std::make_shared<tenant::Lease>(1)),
      shared_(clock) {}

Result<std::unique_ptr<WorkerRig>> WorkerRig::make(const net::Port& port, rte_mempool* pool,
                                                   const RigOptions& options, const Clock& clock) {
  std::unique_ptr<WorkerRig> rig(new WorkerRig(options, clock));
  pipeline::WorkerOptions worker = pipeline::worker_options({});
  worker.pool = pool;
  ITIF_ASSIGN(worker.local,
              net::make_local_addresses(
                  port.info().mac,
                  {.ipv4 = {kOurIp}, .ipv6 = {}, .udp_port = wire::kDefaultPort, .vlan = 0}));
  net::ReassemblyLimits& limits = worker.reassembly;
  limits.max_contexts = options.max_contexts;
  limits.tenant_max_contexts = options.refuses ? 0 : options.max_contexts;
  limits.max_held_bytes = limits.tenant_max_held_bytes = uint64_t{1} << 40;
  limits.timeout_ns = kTimeoutNs;
  limits.stall_ns = kTimeoutNs / 16;
  worker.idle.busy = true;
  worker.seed = 1;
  ITIF_ASSIGN(rig->worker_, pipeline::Worker::create(port, rig->shared_, worker));
  ITIF_ASSIGN(rig->group_, StubGroup::make(options.max_contexts, rig->worker_->returns()));
  rig->shared_.groups.set(0, &rig->group_->inbox());
  rig->lease_->counts = std::make_shared<telemetry::VersionCounts>(1);
  std::vector<tenant::Tenant> tenants(rig->keys_.size());
  for (uint32_t i = 0; i < tenants.size(); ++i) {
    tenant::Tenant& tenant = tenants[i];
    tenant.id = tenant_id(i);
    tenant.index = i;
    tenant.auth = static_cast<uint8_t>(options.auth);
    tenant.key.epoch = kKeyEpoch;
    tenant.key.bytes = rig->keys_[i];
    tenant.max_payload_bytes = wire::kMaxTotalBytes;
    for (const wire::PayloadKind kind :
         {wire::PayloadKind::kRaw, wire::PayloadKind::kTokensU16, wire::PayloadKind::kImageF32})
      tenant.payload_kinds |= static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
    tenant.lease = rig->lease_;
  }
  rig->shared_.tenants.publish(std::make_unique<tenant::Snapshot>(std::move(tenants), 1));
  return rig;
}

uint64_t WorkerRig::token(const net::Endpoint& client, uint32_t session) const noexcept {
  // As the client sees it, its own address is `our_address`.
  const auto address = std::as_bytes(std::span(client.our_address.data(), 4));
  return wire::address_token(shared_.token_secret, address, client.our_port, session,
                             shared_.clock.now_ns() / pipeline::kTokenPeriodNs);
}

}  // namespace itif::bench
