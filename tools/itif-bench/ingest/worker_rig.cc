#include "ingest/worker_rig.h"

#include <fmt/format.h>

#include "base/random.h"
#include "telemetry/version_counts.h"

namespace itif::bench {
namespace {

// Far above what a measurement takes: nothing times out, whatever interrupts it.
constexpr uint64_t kTimeoutNs = 60'000'000'000;
// A ring between workers that share a queue: a round of datagrams fits.
constexpr uint32_t kRingFrames = 4096;

std::vector<wire::Key> make_keys(uint32_t num_tenants) {
  std::vector<wire::Key> keys(num_tenants);
  Random random(3);
  for (wire::Key& key : keys)
    for (std::byte& byte : key) byte = static_cast<std::byte>(random.next());
  return keys;
}

}  // namespace

WorkerRig::WorkerRig(const RigOptions& options, const Clock& clock)
    : options_(options), keys_(make_keys(options.num_tenants)), shared_(clock) {}

Result<std::unique_ptr<WorkerRig>> WorkerRig::make(std::span<const net::Port* const> ports,
                                                   rte_mempool* pool, const RigOptions& options,
                                                   const Clock& clock) {
  std::unique_ptr<WorkerRig> rig(new WorkerRig(options, clock));
  for (const net::Port* port : ports) ITIF_TRY(rig->add_workers(*port, pool));
  std::vector<pipeline::ReturnRing*> returns;
  for (const auto& worker : rig->workers_) returns.push_back(&worker->returns());
  const auto num_workers = static_cast<uint32_t>(rig->workers_.size());
  ITIF_ASSIGN(rig->group_, StubGroup::make(fmt::format("bench_group_{}", options.first_worker),
                                           options.first_worker, std::move(returns)));
  rig->shared_.groups.set(0, &rig->group_->inbox());
  const uint32_t num_ids = options.first_worker + num_workers;
  rig->lease_ = std::make_shared<tenant::Lease>(num_ids);
  rig->lease_->counts = std::make_shared<telemetry::VersionCounts>(num_ids);
  rig->publish_tenants();
  return rig;
}

Status WorkerRig::add_workers(const net::Port& port, rte_mempool* pool) {
  pipeline::WorkerOptions common = pipeline::worker_options({});
  common.pool = pool;
  ITIF_ASSIGN(common.local,
              net::make_local_addresses(
                  port.info().mac,
                  {.ipv4 = {kOurIp}, .ipv6 = {}, .udp_port = wire::kDefaultPort, .vlan = 0}));
  net::ReassemblyLimits& limits = common.reassembly;
  limits.max_contexts = options_.max_contexts;
  limits.tenant_max_contexts = options_.refuses ? 0 : options_.max_contexts;
  limits.max_held_bytes = limits.tenant_max_held_bytes = uint64_t{1} << 40;
  limits.timeout_ns = kTimeoutNs;
  limits.stall_ns = kTimeoutNs / 16;
  common.idle.busy = true;
  common.seed = 1;
  const auto owner = static_cast<uint16_t>(options_.first_worker + workers_.size());
  std::vector<pipeline::WorkerOptions> all(options_.num_workers, common);
  for (uint16_t i = 0; i < options_.num_workers; ++i) {
    all[i].id = static_cast<uint16_t>(owner + i);
    if (i == 0) continue;
    ITIF_ASSIGN(auto lane, pipeline::SpreadLane::create({.owner = owner,
                                                         .member = all[i].id,
                                                         .rx_frames = kRingFrames,
                                                         .tx_frames = kRingFrames}));
    all[i].owner_lane = lane.get();
    all[0].member_lanes.push_back(lane.get());
    lanes_.push_back(std::move(lane));
  }
  for (const pipeline::WorkerOptions& options : all) {
    ITIF_ASSIGN(auto worker, pipeline::Worker::create(port, shared_, options));
    workers_.push_back(std::move(worker));
  }
  return {};
}

void WorkerRig::publish_tenants() {
  std::vector<tenant::Tenant> tenants(keys_.size());
  for (uint32_t i = 0; i < tenants.size(); ++i) {
    tenant::Tenant& tenant = tenants[i];
    tenant.id = tenant_id(i);
    tenant.index = i;
    tenant.auth = static_cast<uint8_t>(options_.auth);
    tenant.key.epoch = kKeyEpoch;
    tenant.key.bytes = keys_[i];
    tenant.max_payload_bytes = wire::kMaxTotalBytes;
    for (const wire::PayloadKind kind :
         {wire::PayloadKind::kRaw, wire::PayloadKind::kTokensU16, wire::PayloadKind::kImageF32})
      tenant.payload_kinds |= static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
    tenant.lease = lease_;
  }
  shared_.tenants.publish(std::make_unique<tenant::Snapshot>(std::move(tenants), 1));
}

uint64_t WorkerRig::token(const net::Endpoint& client, uint32_t session,
                          size_t port) const noexcept {
  // As the client sees it, its own address is `our_address`.
  const auto address = std::as_bytes(std::span(client.our_address.data(), 4));
  const auto& worker = *workers_[port * options_.num_workers];
  return wire::address_token(shared_.token_secret,
                             {.address = address,
                              .port = client.our_port,
                              .session = session,
                              .receiver = worker.options().token_receiver()},
                             shared_.clock.now_ns() / pipeline::kTokenPeriodNs);
}

}  // namespace itif::bench
