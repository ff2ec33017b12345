#include "pipeline/pipeline.h"

#include <fmt/format.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_capabilities.h"

namespace itif::pipeline {

static_assert(config::kMaxWorkers <= tenant::SnapshotCell::kMaxReaders);

namespace {

net::MempoolConfig pool_config(const config::Config& config, size_t index) {
  return {.name = fmt::format("itif_pool_{}", index),
          .mbufs = config.data_plane.mbufs,
          .mbuf_bytes = config.data_plane.mbuf_bytes};
}

constexpr uint32_t kEthernetAndVlanBytes = 22;  // before the IP packet, in the same buffer

std::vector<unsigned> eal_worker_lcores() {
  std::vector<unsigned> lcores;
  unsigned lcore;
  RTE_LCORE_FOREACH_WORKER(lcore) lcores.push_back(lcore);
  return lcores;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::create(const config::Config& config, const Clock& clock,
                                                   const wire::Key& token_secret, Random& random) {
  return make(config, clock, token_secret, random, {});
}

Result<std::unique_ptr<Pipeline>> Pipeline::create_beside(const config::Config& config,
                                                          const Clock& clock,
                                                          const wire::Key& token_secret,
                                                          Random& random,
                                                          std::span<const net::PortInfo> infos) {
  CHECK(infos.size() == config.ports.size());
  return make(config, clock, token_secret, random, infos);
}

Result<std::unique_ptr<Pipeline>> Pipeline::make(const config::Config& config, const Clock& clock,
                                                 const wire::Key& token_secret, Random& random,
                                                 std::span<const net::PortInfo> infos) {
  std::unique_ptr<Pipeline> pipeline(new Pipeline);
  pipeline->shared_ = std::make_unique<Shared>(clock);
  pipeline->shared_->token_secret = token_secret;
  for (size_t i = 0; i < config.ports.size(); ++i)
    ITIF_TRY(
        pipeline->add_port(config, config.ports[i], random, infos.empty() ? nullptr : &infos[i]));
  ITIF_ASSIGN(pipeline->local_,
              LocalRequests::create(static_cast<uint16_t>(pipeline->workers_.size()),
                                    pipeline->pools_.front().get(), clock));

  pipeline->changes_user_ = !config.process.user.empty() && ::geteuid() == 0;
  const std::vector<unsigned>& named = config.data_plane.worker_lcores;
  pipeline->lcores_ = named.empty() ? eal_worker_lcores() : named;
  if (pipeline->lcores_.size() < pipeline->workers_.size()) {
    return fail(Code::kInvalidArgument,
                fmt::format("{} workers need an lcore each and there are {}: name more in "
                            "eal.args (-l or --lcores), or lower num_workers or num_queues",
                            pipeline->workers_.size(), pipeline->lcores_.size()));
  }
  for (unsigned lcore : named) {
    if (!rte_lcore_is_enabled(lcore) || lcore == rte_get_main_lcore()) {
      return fail(
          Code::kInvalidArgument,
          fmt::format("data_plane.worker_lcores: lcore {} is not one of EAL's worker lcores",
                      lcore));
    }
  }
  return pipeline;
}

// `known`: of a port to open later; nullptr: opens it now.
Status Pipeline::add_port(const config::Config& config, const config::Port& port, Random& random,
                          const net::PortInfo* known) {
  ITIF_ASSIGN(net::Mempool pool, net::create_mempool(pool_config(config, pools_.size())));
  const net::PortConfig port_config{.device = port.device,
                                    .num_queues = port.num_queues,
                                    .rx_descriptors = port.rx_descriptors,
                                    .tx_descriptors = port.tx_descriptors,
                                    .mtu = port.mtu,
                                    .pool = pool.get()};
  ITIF_ASSIGN(net::Port made, known != nullptr ? Result<net::Port>(net::Port::closed(*known))
                                               : net::Port::open(port_config));
  pools_.push_back(std::move(pool));
  port_configs_.push_back(port_config);
  ports_.push_back(std::make_unique<net::Port>(std::move(made)));
  const net::Port& ready = *ports_.back();
  ITIF_ASSIGN(
      const net::LocalAddresses local,
      net::make_local_addresses(
          ready.info().mac,
          {.ipv4 = port.ipv4, .ipv6 = port.ipv6, .udp_port = port.udp_port, .vlan = port.vlan}));
  const config::DataPlane& plane = config.data_plane;
  // A worker without a queue has rings, with as much room as a queue.
  const uint16_t num_workers = port.workers();
  const uint64_t in_queues = (uint64_t{port.rx_descriptors} + port.tx_descriptors) * num_workers;
  // Requests may hold two thirds of the port's buffers that its queues do not fill; the rest serve
  // receiving and sending. A buffer counts with its headroom (Reassembler::hold).
  const uint64_t holdable = std::max<uint64_t>((plane.mbufs - in_queues) * 2 / 3, plane.mbufs / 8) *
                            (plane.mbuf_bytes + RTE_PKTMBUF_HEADROOM) / num_workers;
  // The MTU of responses: the path's, limited by the device's MTU and the size of a buffer.
  const uint32_t path_mtu =
      std::min({port.path_mtu != 0 ? port.path_mtu : port.mtu, uint32_t{ready.info().mtu},
                plane.mbuf_bytes - kEthernetAndVlanBytes});
  WorkerOptions options = worker_options(plane);
  options.pool = pools_.back().get();
  options.local = local;
  options.reassembly.max_held_bytes = std::min(plane.max_held_bytes, holdable);
  options.path_mtu = path_mtu;
  options.stamps_stages = config.telemetry.stages;
  return add_workers(ready, num_workers, options, random);
}

// Makes the workers of a port. Workers beyond its queues share the queue of another worker.
Status Pipeline::add_workers(const net::Port& port, uint16_t num_workers,
                             const WorkerOptions& common, Random& random) {
  const net::PortConfig& config = port_configs_.back();
  const uint16_t num_queues = port.info().num_queues;
  const auto first = static_cast<uint16_t>(workers_.size());
  std::vector<WorkerOptions> all(num_workers, common);
  for (uint16_t i = 0; i < num_workers; ++i) {
    WorkerOptions& options = all[i];
    options.id = static_cast<uint16_t>(first + i);
    options.queue = i % num_queues;
    options.seed = random.next();
    if (i < num_queues) continue;
    WorkerOptions& owner = all[options.queue];
    ITIF_ASSIGN(auto lane, SpreadLane::create({.owner = owner.id,
                                               .member = options.id,
                                               .rx_frames = config.rx_descriptors,
                                               .tx_frames = config.tx_descriptors}));
    options.owner_lane = lane.get();
    owner.member_lanes.push_back(lane.get());
    lanes_.push_back(std::move(lane));
  }
  if (num_workers > num_queues)
    log::info("port {}: software spreads flows over {} workers that share {} queue{}",
              port.info().device, num_workers, num_queues, num_queues == 1 ? "" : "s");
  for (const WorkerOptions& options : all) {
    ITIF_ASSIGN(auto worker, Worker::create(port, *shared_, options));
    workers_.push_back(std::move(worker));
  }
  return {};
}

Pipeline::~Pipeline() {
  stop();
}

Status Pipeline::register_packet_memory(device::Device& device) {
  Status status;
  for (const std::span<std::byte> chunk : net::packet_memory(pools_)) {
    Status registered = device.register_host_memory(chunk.data(), chunk.size());
    if (status) status = std::move(registered);
  }
  return status;
}

Status Pipeline::detach_ports() {
  stop();
  for (const auto& port : ports_) ITIF_TRY(port->detach());
  return {};
}

Status Pipeline::open_ports() {
  for (size_t i = 0; i < ports_.size(); ++i)
    if (!ports_[i]->is_open()) ITIF_TRY(ports_[i]->open_as_known(port_configs_[i]));
  return {};
}

Status Pipeline::start() {
  running_ = true;
  for (const auto& worker : workers_) worker->allow_run();
  for (size_t i = 0; i < workers_.size(); ++i) {
    const auto run = [](void* worker) {
      static_cast<Worker*>(worker)->run();
      return 0;
    };
    // The ports are open: a worker needs no capability. A later change of the user drops them, too.
    const auto run_without_rights = [](void* worker) {
      drop_thread_capabilities();
      static_cast<Worker*>(worker)->run();
      return 0;
    };
    const int error = rte_eal_remote_launch(changes_user_ ? +run : +run_without_rights,
                                            workers_[i].get(), lcores_[i]);
    if (error != 0) {
      return fail(Code::kInternal, fmt::format("lcore {} cannot run worker {}: {}", lcores_[i], i,
                                               errno_text(-error)));
    }
  }
  return {};
}

void Pipeline::stop() noexcept {
  if (!running_) return;
  running_ = false;
  for (const auto& worker : workers_) worker->stop();
  for (size_t i = 0; i < workers_.size(); ++i) rte_eal_wait_lcore(lcores_[i]);
}

bool Pipeline::has_intake(tenant::Intake intake) const noexcept {
  return !is_running() || std::ranges::all_of(workers_, [intake](const auto& worker) {
    return worker->intake() == intake;
  });
}

std::vector<ReturnRing*> Pipeline::return_rings() const {
  std::vector<ReturnRing*> rings;
  for (const auto& worker : workers_) rings.push_back(&worker->returns());
  rings.push_back(&local_->returns());
  return rings;
}

std::vector<std::vector<unsigned>> Pipeline::worker_cpus() const {
  std::vector<std::vector<unsigned>> all;
  for (size_t i = 0; i < workers_.size(); ++i) {
    const rte_cpuset_t set = rte_lcore_cpuset(lcores_[i]);
    std::vector<unsigned>& cpus = all.emplace_back();
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return all;
}

}  // namespace itif::pipeline
