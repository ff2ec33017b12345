// Two workers at the same time. Rounds of the setups take turns, so that what disturbs the machine
// disturbs all of them.
#include "benches/ingest_workers.h"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "ingest/parallel_load.h"

namespace itif::bench {
namespace {

constexpr uint32_t kWorkersClients = 64;
constexpr uint32_t kWorkersMbufs = 65536;
constexpr int kWorkersWarmUps = 20;

struct WorkersCase {
  const char* name;
  const char* mode;
  Fault fault;
};
constexpr WorkersCase kWorkersCases[] = {
    {"2 workers, 64 B, header", "hand-over", Fault::kNone},
    {"2 workers, 64 B, header, overloaded", "refused", Fault::kOverloaded},
};

net::MempoolConfig workers_frames() {
  return {.name = "frames", .mbufs = kWorkersMbufs, .mbuf_bytes = 2048};
}

// Loads that run together, and their time per datagram.
struct WorkersSetup {
  const char* what;
  std::vector<std::unique_ptr<WorkerLoad>> loads = {};
  Samples ns = {};

  // The threads live as long as the result: those of idle setups would take the others' time.
  std::unique_ptr<ParallelLoad> start(const std::vector<int>& cpus) const {
    std::vector<WorkerLoad*> all;
    for (const auto& load : loads) all.push_back(load.get());
    return std::make_unique<ParallelLoad>(std::move(all), cpus);
  }
};

class WorkersBench {
 public:
  WorkersBench(const BenchOptions& options, Report& report, std::vector<RingPort*> ports,
               rte_mempool* frames, std::vector<int> cpus)
      : options_(options),
        report_(report),
        ports_(std::move(ports)),
        frames_(frames),
        cpus_(std::move(cpus)) {}

  Status run(const WorkersCase& one) {
    LoadOptions load{.burst = 2048, .fault = one.fault, .num_clients = kWorkersClients};
    std::array<WorkersSetup, 4> setups = {{{.what = "1 worker"},
                                           {.what = "2 that share nothing"},
                                           {.what = "2 ports"},
                                           {.what = "1 port, spread"}}};
    const auto add = [&](WorkersSetup& setup, std::vector<RingPort*> ports,
                         uint16_t workers) -> Status {
      load.num_workers = workers;
      ITIF_ASSIGN(auto made, WorkerLoad::make(ports, frames_, load, kSystemClock));
      load.first_worker += static_cast<uint16_t>(workers * ports.size());
      setup.loads.push_back(std::move(made));
      return {};
    };
    ITIF_TRY(add(setups[0], {ports_[0]}, 1));
    ITIF_TRY(add(setups[1], {ports_[0]}, 1));
    ITIF_TRY(add(setups[1], {ports_[1]}, 1));
    ITIF_TRY(add(setups[2], ports_, 1));
    ITIF_TRY(add(setups[3], {ports_[0]}, 2));
    for (const WorkersSetup& setup : setups) ITIF_TRY(check(setup));
    const uint64_t start_ns = kSystemClock.now_ns();
    const double limit_ns = options_.run_seconds() * 1e9;
    const size_t least = options_.quick ? 3 : 9;
    while (setups[0].ns.ns.size() < least ||
           static_cast<double>(kSystemClock.now_ns() - start_ns) < limit_ns)
      for (WorkersSetup& setup : setups) sample(setup);
    for (const WorkersSetup& setup : setups)
      for (const auto& each : setup.loads) ITIF_TRY(each->finish());
    add_rows(one, setups);
    return {};
  }

 private:
  // Checks what the workers do in one thread, then warms up in all.
  Status check(const WorkersSetup& setup) const {
    for (const auto& load : setup.loads) ITIF_TRY(load->check(4096));
    const auto parallel = setup.start(cpus_);
    for (int i = 0; i < kWorkersWarmUps; ++i) (void)parallel->run();
    return {};
  }

  void sample(WorkersSetup& setup) const {
    constexpr int kRounds = 8;
    const auto parallel = setup.start(cpus_);
    (void)parallel->run();
    double ns = 0;
    uint64_t datagrams = 0;
    for (int i = 0; i < kRounds || datagrams == 0; ++i)
      if (const auto round = parallel->run()) {
        ns += round->ns;
        datagrams += round->datagrams;
      }
    setup.ns.add(ns / static_cast<double>(datagrams));
  }

  void add_rows(const WorkersCase& one, const std::array<WorkersSetup, 4>& setups) {
    const double alone = 1e3 / setups[0].ns.median(), limit = 1e3 / setups[1].ns.median();
    for (const WorkersSetup& setup : setups) {
      const double rate = 1e3 / setup.ns.median();
      const bool has_limit = &setup != &setups[0];
      Row row{.name = one.name,
              .mode = fmt::format("{}, {}", one.mode, setup.what),
              .value = rate,
              .unit = "M/s",
              .spread = setup.ns.spread()};
      if (has_limit) {
        row.limit = limit;
        row.limit_spread = setups[1].ns.spread();
        row.ratio = rate / limit;
      }
      report_.add(row);
      row.value = has_limit ? rate / 2 : rate;
      row.unit = "M/s per core";
      if (has_limit) row.limit = limit / 2;
      report_.add(row);
      if (!has_limit) continue;
      row.value = rate / alone;
      row.limit = limit / alone;
      row.unit = "times";  // what one worker does
      report_.add(row);
    }
  }

  const BenchOptions& options_;
  Report& report_;
  const std::vector<RingPort*> ports_;
  rte_mempool* const frames_;
  const std::vector<int> cpus_;
};

}  // namespace

bool wants_ingest_workers(const BenchOptions& options) {
  for (const WorkersCase& one : kWorkersCases)
    if (options.wants(one.name)) return true;
  return false;
}

uint32_t ingest_workers_mb() {
  // A page for the data of each buffer, and the workers' rings.
  return static_cast<uint32_t>(uint64_t{kWorkersMbufs} * 4096 >> 20) + 64;
}

Status ingest_workers(const BenchOptions& options, Report& report, RingPort& port,
                      const std::vector<int>& cpus) {
  if (!wants_ingest_workers(options)) return {};
  if (cpus.size() < 2) {
    report.note("skipped 2 workers: they need a CPU each");
    return {};
  }
  ITIF_ASSIGN(const auto second, port.make_another());
  ITIF_ASSIGN(const net::Mempool frames, net::create_mempool(workers_frames()));
  WorkersBench bench(options, report, {&port, second.get()}, frames.get(),
                     {cpus.back(), cpus.front()});
  for (const WorkersCase& one : kWorkersCases)
    if (options.wants(one.name)) ITIF_TRY(bench.run(one));
  return {};
}

}  // namespace itif::bench
