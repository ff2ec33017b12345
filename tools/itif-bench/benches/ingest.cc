// itif-bench ingest: what a worker core needs per datagram, from the port to the group, and back.
//
// In one process, over a port of two rings: the cost of the worker alone. Its limit is receiving
// and freeing the same frames ("rxonly"). Then over memif, with another process as the sender
// (ingest_live.h): the limit is the rate of dpdk-testpmd. Then two workers in two threads
// (ingest_workers.h).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "benches.h"
#include "benches/ingest_live.h"
#include "benches/ingest_tags.h"
#include "benches/ingest_workers.h"
#include "ingest/child.h"
#include "ingest/worker_load.h"

namespace itif::bench {
namespace {

constexpr const char* kHandOver = "hand-over";
constexpr const char* kAnswered = "answered";
constexpr const char* kDropped = "dropped";
constexpr const char* kRefused = "refused";
// Short, so that an interruption spoils few samples.
constexpr uint32_t kSampleDatagrams = 4096;
constexpr int kWarmUps = 8;
constexpr uint32_t kJumboMbufBytes = 9216;
constexpr uint32_t kMbufBytes = 2048;

struct IngestCase {
  std::string name;
  const char* mode;
  LoadOptions load;
};

struct RequestShape {
  const char* name;
  uint32_t num_pieces, fragment_bytes;
};
constexpr wire::Auth kAuths[] = {wire::Auth::kNone, wire::Auth::kHeader, wire::Auth::kFull,
                                 wire::Auth::kSealed};
constexpr RequestShape kSingleDatagram{"64 B", 1, 64};
constexpr RequestShape kGsliceImage{"1 KB x 588", 588, 1024};
constexpr RequestShape kEthernet{"1,400 B x 105", 105, 1400};
constexpr RequestShape kJumbo{"8,896 B x 68", 68, 8896};
constexpr RequestShape kShort{"1 KB x 4", 4, 1024};
constexpr RequestShape kPair{"1 KB x 2", 2, 1024};

LoadOptions load_of_shape(const RequestShape& shape, wire::Auth auth = wire::Auth::kHeader) {
  return {.payload_bytes = shape.num_pieces * shape.fragment_bytes,
          .fragment_bytes = shape.fragment_bytes,
          .auth = auth};
}

std::string ingest_name(const RequestShape& shape, wire::Auth auth = wire::Auth::kHeader,
                        const std::string& more = {}) {
  return fmt::format("{}, {}{}{}", shape.name, wire::auth_name(auth), more.empty() ? "" : ", ",
                     more);
}

std::string open_name(wire::Auth auth, uint32_t num_open) {
  return ingest_name(kShort, auth, fmt::format("{} open", num_open));
}

std::vector<IngestCase> make_cases() {
  std::vector<IngestCase> cases;
  const auto add = [&](const RequestShape& shape, const std::string& more, const char* mode,
                       auto change, wire::Auth auth = wire::Auth::kHeader) {
    IngestCase& one =
        cases.emplace_back(ingest_name(shape, auth, more), mode, load_of_shape(shape, auth));
    one.load.responds = mode == kAnswered;
    change(one.load);
  };
  const auto as_is = [](LoadOptions&) {};
  for (const wire::Auth auth : kAuths) {
    for (const char* mode : {kHandOver, kAnswered}) add(kSingleDatagram, "", mode, as_is, auth);
    for (const RequestShape& shape : {kGsliceImage, kEthernet, kJumbo})
      add(shape, "", kHandOver, as_is, auth);
  }
  for (const RequestShape& shape : {kSingleDatagram, kGsliceImage})
    for (const uint32_t burst : {16u, 32u, 128u})
      add(shape, fmt::format("bursts of {}", burst), kHandOver,
          [&](LoadOptions& load) { load.burst = burst; });
  add(kSingleDatagram, "1000 tenants", kHandOver,
      [](LoadOptions& load) { load.num_tenants = 1000; });
  for (const RequestShape& shape : {kSingleDatagram, kGsliceImage}) {
    add(shape, "cold", kHandOver, [](LoadOptions& load) { load.cold = true; });
    add(shape, "checksums in software", kHandOver,
        [](LoadOptions& load) { load.checksums_in_software = true; });
  }
  for (const RequestShape& shape : {kGsliceImage, kEthernet, kJumbo})
    add(shape, "shuffled", kHandOver, [](LoadOptions& load) { load.shuffled = true; });
  add(kGsliceImage, "64 open", kHandOver, [](LoadOptions& load) { load.num_open = 64; });
  for (const wire::Auth auth : kAuths)
    for (const uint32_t num_open : {1u, 1'000u, 100'000u})
      add(
          kShort, fmt::format("{} open", num_open), kHandOver,
          [&](LoadOptions& load) { load.num_open = num_open; }, auth);
  const auto with = [](Fault fault) { return [fault](LoadOptions& load) { load.fault = fault; }; };
  add(kSingleDatagram, "overloaded", kRefused, with(Fault::kOverloaded));
  add(kSingleDatagram, "overloaded", kRefused, with(Fault::kOverloaded), wire::Auth::kFull);
  add(kSingleDatagram, "bad magic", kDropped, with(Fault::kBadMagic));
  add(kSingleDatagram, "bad tags", kDropped, with(Fault::kBadTag));
  add(kSingleDatagram, "bad tags", kDropped, with(Fault::kBadTag), wire::Auth::kFull);
  add(kPair, "duplicates", kDropped, with(Fault::kDuplicate));
  add(kSingleDatagram, "replayed", kDropped, with(Fault::kReplayed));
  return cases;
}

net::MempoolConfig frames_of(const LoadOptions& load) {
  return {.name = "frames",
          .mbufs = load.num_mbufs(),
          .mbuf_bytes = load.frame_bytes() > kMbufBytes ? kJumboMbufBytes : kMbufBytes};
}

// Without hugepages a buffer begins a page of its own.
uint32_t memory_mb(const LoadOptions& load) {
  constexpr uint64_t kPage = 4096, kBesideData = 512, kOther = 64;
  const net::MempoolConfig frames = frames_of(load);
  const uint64_t pages = (frames.mbuf_bytes + kBesideData + kPage - 1) / kPage;
  return static_cast<uint32_t>((frames.mbufs * pages * kPage >> 20) + kOther);
}

struct Measured {
  Samples ns, cycles, bare_ns;
  double frame_bytes = 0;
};

class IngestBench {
 public:
  IngestBench(const BenchOptions& options, Report& report) : options_(options), report_(report) {}

  Status run() {
    std::vector<IngestCase> cases = make_cases();
    std::erase_if(cases, [&](const IngestCase& one) { return !options_.wants(one.name); });
    const bool is_live = wants_ingest_live(options_);
    const bool has_two = wants_ingest_workers(options_);
    if (cases.empty() && !is_live && !has_two) return {};
    RingPortOptions port;
    if (has_two) port.memory_mb = std::max(port.memory_mb, ingest_workers_mb());
    for (const IngestCase& one : cases)
      port.memory_mb = std::max(port.memory_mb, memory_mb(one.load));
    const std::vector<int> cpus = usable_cpus();  // the port pins this thread to the last
    if (cpus.empty()) return fail(Code::kInternal, "the kernel names no usable CPU");
    ITIF_ASSIGN(port_, RingPort::open(port, cpus.back()));
    report_.add_device(fmt::format("one worker core, packet buffers in {}", port_->memory()));
    for (const IngestCase& one : cases) ITIF_TRY(run_case(one));
    compare();
    ITIF_TRY(ingest_workers(options_, report_, *port_, cpus));
    return is_live ? ingest_live(options_, report_, *port_, cpus) : Status();
  }

 private:
  Status run_case(const IngestCase& one) {
    const Result<net::Mempool> frames = net::create_mempool(frames_of(one.load));
    if (!frames) {
      report_.note(fmt::format("skipped {}: {}", one.name, frames.error().message));
      return {};
    }
    ITIF_ASSIGN(const auto load, WorkerLoad::make(*port_, frames->get(), one.load, kSystemClock));
    const auto in_case = [&](Status status) -> Status {
      if (!status) status.error().message = one.name + ": " + status.error().message;
      return status;
    };
    ITIF_TRY(in_case(load->check(2 * one.load.num_pieces() + one.load.round_datagrams())));
    const Measured measured = measure(*load);
    ITIF_TRY(in_case(load->finish()));
    add_rows(one, measured);
    median_ns_[one.name + "/" + one.mode] = measured.ns.median();
    return {};
  }

  Measured measure(WorkerLoad& load) const {
    const size_t least = options_.quick ? 3 : 9;
    const double ns_per_cycle = 1e9 / WorkerLoad::cycles_per_second();
    Measured measured;
    for (int i = 0; i < kWarmUps; ++i) {
      load.run(kSampleDatagrams);
      load.run_bare(kSampleDatagrams);
    }
    const uint64_t start_ns = kSystemClock.now_ns();
    const double limit_ns = options_.run_seconds() * 1e9;
    while (measured.ns.ns.size() < least ||
           static_cast<double>(kSystemClock.now_ns() - start_ns) < limit_ns) {
      const Pass pass = load.run(kSampleDatagrams);
      measured.cycles.add(pass.cycles_per_datagram());
      measured.ns.add(pass.cycles_per_datagram() * ns_per_cycle);
      measured.bare_ns.add(load.run_bare(kSampleDatagrams).cycles_per_datagram() * ns_per_cycle);
      measured.frame_bytes = static_cast<double>(pass.bytes) / static_cast<double>(pass.datagrams);
    }
    return measured;
  }

  void add_rows(const IngestCase& one, const Measured& measured) {
    const double ns = measured.ns.median(), bare_ns = measured.bare_ns.median();
    const auto row = [&](const char* unit, double value, double limit) {
      report_.add({.name = one.name,
                   .mode = one.mode,
                   .value = value,
                   .unit = unit,
                   .spread = measured.ns.spread(),
                   .limit = limit,
                   .limit_spread = measured.bare_ns.spread(),
                   .ratio = value / limit});
    };
    row("ns", ns, bare_ns);
    row("cycles", measured.cycles.median(), bare_ns * measured.cycles.median() / ns);
    row("M/s", 1e3 / ns, 1e3 / bare_ns);
    row("Gb/s", 8 * measured.frame_bytes / ns, 8 * measured.frame_bytes / bare_ns);
  }

  std::optional<double> median_of(const std::string& name, const char* mode) const {
    const auto found = median_ns_.find(name + "/" + mode);
    if (found == median_ns_.end()) return {};
    return found->second;
  }

  void add_quotient(const std::string& name, const char* mode, std::optional<double> above,
                    std::optional<double> below) {
    if (above && below)
      report_.add({.name = name, .mode = mode, .value = *above / *below, .unit = "times"});
  }

  void compare() {
    for (const wire::Auth auth : kAuths)
      for (const uint32_t num_open : {1'000u, 100'000u})
        add_quotient(open_name(auth, num_open), "per 1 open",
                     median_of(open_name(auth, num_open), kHandOver),
                     median_of(open_name(auth, 1), kHandOver));
    for (const wire::Auth auth : {wire::Auth::kHeader, wire::Auth::kFull})
      add_quotient(ingest_name(kSingleDatagram, auth, "overloaded"), "per answered",
                   median_of(ingest_name(kSingleDatagram, auth, "overloaded"), kRefused),
                   median_of(ingest_name(kSingleDatagram, auth), kAnswered));
  }

  const BenchOptions& options_;
  Report& report_;
  std::unique_ptr<RingPort> port_;
  std::map<std::string, double> median_ns_;  // by case and mode
};

}  // namespace

Status bench_ingest(const BenchOptions& options, Report& report) {
  ITIF_TRY(ingest_tags(options, report));
  return IngestBench(options, report).run();
}

}  // namespace itif::bench
