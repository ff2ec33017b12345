// The data plane as one object: packet pools, ports, a worker a queue, and what they share.
//
// Made, started and stopped by the main thread, after EAL; groups come and go while it runs (see
// directory.h).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "config/config.h"
#include "device/device.h"
#include "net/mempool.h"
#include "net/port.h"
#include "pipeline/worker.h"

namespace itif::pipeline {

// Megabytes of packet and ring memory that the configuration asks for: what --no-huge must get.
uint32_t needed_memory_mb(const config::Config& config);

class Pipeline {
 public:
  // Opens every port. `clock` outlives the pipeline; `random` seeds the secrets of hash tables.
  // Errors: those of Port::open and create_mempool; kInvalidArgument (addresses; fewer worker lcores
  // than queues).
  static Result<std::unique_ptr<Pipeline>> create(const config::Config& config, const Clock& clock,
                                                  const wire::Key& token_secret, Random& random);
  ~Pipeline();  // stop()

  // Lets the device read packet memory in place, as much as it takes. Before start(). REQUIRES: the device goes before
  // the pipeline. Errors: the device's first.
  Status register_packet_memory(device::Device& device);
  Status start();  // launches the workers on their lcores
  void stop() noexcept;

  Shared& shared() noexcept { return *shared_; }
  const Shared& shared() const noexcept { return *shared_; }
  std::span<const std::unique_ptr<Worker>> workers() const noexcept { return workers_; }
  std::span<const std::unique_ptr<net::Port>> ports() const noexcept { return ports_; }
  std::vector<ReturnRing*> return_rings() const;

 private:
  Pipeline() = default;
  Status open_port(const config::Config& config, const config::Port& port, Random& random);

  std::unique_ptr<Shared> shared_;
  std::vector<net::Mempool> pools_;
  std::vector<std::unique_ptr<net::Port>> ports_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<unsigned> lcores_;  // of each worker
  bool running_ = false;
};

}  // namespace itif::pipeline
