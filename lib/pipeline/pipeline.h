// The data plane: packet pools, ports, their workers (one per queue, or more that share the
// queues), and their shared state.
//
// Created, started and stopped by the main thread, after EAL has started. Groups are added and
// removed while it runs (serving/tenant_service.h).
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "config/config.h"
#include "device/device.h"
#include "net/mempool.h"
#include "net/port.h"
#include "pipeline/local_requests.h"
#include "pipeline/worker.h"

namespace itif::pipeline {

class Pipeline {
 public:
  // Opens every port. `clock` outlives the pipeline; `random` seeds the secrets of hash tables.
  // Errors: those of Port::open and create_mempool; kInvalidArgument (addresses; fewer worker
  // lcores than workers).
  static Result<std::unique_ptr<Pipeline>> create(const config::Config& config, const Clock& clock,
                                                  const wire::Key& token_secret, Random& random);
  // As create(), for ports that another process has open: workers start after open_ports().
  // `infos`: of the configured ports, in order.
  static Result<std::unique_ptr<Pipeline>> create_beside(const config::Config& config,
                                                         const Clock& clock,
                                                         const wire::Key& token_secret,
                                                         Random& random,
                                                         std::span<const net::PortInfo> infos);
  ~Pipeline();  // stop()

  // Registers all packet memory with the device, which then reads it in place. Continues after an
  // error and returns the first one. REQUIRES: called before start(); the device is destroyed
  // before the pipeline.
  Status register_packet_memory(device::Device& device);
  // Stops the workers, which first send their answers, and removes the ports' devices from EAL.
  Status detach_ports();
  // Opens the ports, whose devices are attached. Errors: those of Port::open_as_known.
  Status open_ports();
  Status start();  // launches the workers on their lcores
  void stop() noexcept;
  // Returns true between start() and stop(). Any thread.
  bool is_running() const noexcept { return running_.load(std::memory_order_relaxed); }
  // Returns true if all workers treat new requests so, or none runs. Any thread.
  bool has_intake(tenant::Intake intake) const noexcept;

  Shared& shared() noexcept { return *shared_; }
  const Shared& shared() const noexcept { return *shared_; }
  std::span<const std::unique_ptr<Worker>> workers() const noexcept { return workers_; }
  std::span<const std::unique_ptr<net::Port>> ports() const noexcept { return ports_; }
  std::span<const net::Mempool> pools() const noexcept { return pools_; }  // one per port, in order
  // Returns the workers' return rings, in order, then that of local().
  std::vector<ReturnRing*> return_rings() const;
  LocalRequests& local() noexcept { return *local_; }
  std::vector<std::vector<unsigned>> worker_cpus() const;  // that each worker may run on

 private:
  Pipeline() = default;
  static Result<std::unique_ptr<Pipeline>> make(const config::Config& config, const Clock& clock,
                                                const wire::Key& token_secret, Random& random,
                                                std::span<const net::PortInfo> infos);
  Status add_port(const config::Config& config, const config::Port& port, Random& random,
                  const net::PortInfo* known);
  Status add_workers(const net::Port& port, uint16_t num_workers, const WorkerOptions& common,
                     Random& random);

  std::unique_ptr<Shared> shared_;
  std::vector<net::Mempool> pools_;
  std::vector<net::PortConfig> port_configs_;
  std::vector<std::unique_ptr<net::Port>> ports_;
  std::vector<std::unique_ptr<SpreadLane>> lanes_;
  std::vector<std::unique_ptr<Worker>> workers_;  // of each port those with a queue come first
  std::unique_ptr<LocalRequests> local_;
  std::vector<unsigned> lcores_;  // of each worker
  std::atomic<bool> running_{false};
  bool changes_user_ = false;  // process.user: the process becomes that user after start()
};

}  // namespace itif::pipeline
