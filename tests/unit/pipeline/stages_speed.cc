// Measures what the stages of requests cost the data path: time per request of a worker and a group
// that computes nothing, with WorkerOptions::stamps_stages and without. The unit tests run it
// briefly, whatever the times are: it fails if a request gets no answer.
//   stages_speed [SECONDS [REQUESTS_AT_ONCE [TENANTS]]]
//
// Worker and group run in one thread, on a port of two rings. Both modes take turns, so that other
// load on the machine affects both alike.
#include <fmt/format.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "execution/group_stage.h"
#include "fake_group.h"
#include "net/eal.h"
#include "net/mempool.h"
#include "pipeline/worker.h"
#include "request_frame.h"

namespace itif::pipeline {
namespace {

using execution::test::FakeDevice;
using execution::test::FakeGroup;

constexpr uint32_t kFirstTenant = 100;
constexpr size_t kWorkers = 2;  // with the ids 0 and 1
constexpr uint32_t kTurnRequests = 4096;
constexpr uint64_t kAnswerLimitNs = 10'000'000'000;
const SystemClock kClock;

struct Settings {
  double seconds = 5;
  uint32_t at_once = 16;
  uint32_t tenants = 16;
};

class Mode {
 public:
  static Result<std::unique_ptr<Mode>> make(const char* name, rte_mempool* pool, bool stamps,
                                            const Settings& settings) {
    std::unique_ptr<Mode> mode(new Mode(pool, settings));
    ITIF_TRY(mode->open(name, stamps));
    return mode;
  }

  // Returns the time of one request of kTurnRequests, in ns.
  double turn() {
    const uint64_t start_ns = kClock.now_ns();
    for (uint32_t n = 0; n < kTurnRequests; n += settings_.at_once) {
      for (uint32_t i = 0; i < settings_.at_once; ++i) send();
      const uint64_t answered = worker_->counters().responses.read() + settings_.at_once;
      const uint64_t sent_ns = kClock.now_ns();
      do {
        worker_->poll();
        stage_->poll();
        worker_->poll();
        CHECK(kClock.now_ns() - sent_ns < kAnswerLimitNs);  // else the worker dropped a request
      } while (worker_->counters().responses.read() < answered);
      drop_answers();
    }
    return static_cast<double>(kClock.now_ns() - start_ns) / kTurnRequests;
  }

 private:
  Mode(rte_mempool* pool, const Settings& settings)
      : pool_(pool), settings_(settings), shared_(kClock) {}

  Status open(const std::string& name, bool stamps) {
    in_ = rte_ring_create((name + "_in").c_str(), 4096, SOCKET_ID_ANY, 0);
    out_ = rte_ring_create((name + "_out").c_str(), 4096, SOCKET_ID_ANY, 0);
    if (in_ == nullptr || out_ == nullptr ||
        rte_eth_from_rings(name.c_str(), &in_, 1, &out_, 1, 0) < 0)
      return fail(Code::kResourceExhausted, "no port of rings");
    ITIF_ASSIGN(net::Port port, net::Port::open({.device = "net_ring_" + name, .pool = pool_}));
    port_ = std::make_unique<net::Port>(std::move(port));
    WorkerOptions options;
    options.pool = pool_;
    ITIF_ASSIGN(
        options.local,
        net::make_local_addresses(
            port_->info().mac, {.ipv4 = {"198.18.0.1"}, .ipv6 = {}, .udp_port = 9009, .vlan = 0}));
    options.id = stamps;  // distinct, because it names rings
    options.stamps_stages = stamps;
    token_receiver_ = options.token_receiver();
    ITIF_ASSIGN(worker_, Worker::create(*port_, shared_, options));
    execution::GroupStageOptions stage_options;
    stage_options.executor.stamps_stages = stamps;
    ReturnRing* returns[] = {&worker_->returns(), &worker_->returns()};  // by worker id
    ITIF_ASSIGN(stage_, execution::GroupStage::create(name, std::make_unique<FakeGroup>(), device_,
                                                      kClock, returns, stage_options));
    shared_.groups.set(0, &stage_->inbox());
    std::vector<tenant::Tenant> tenants;
    for (uint32_t i = 0; i < settings_.tenants; ++i) {
      tenant::Tenant& t = tenants.emplace_back();
      t.id = kFirstTenant + i;
      t.index = i;
      t.auth = static_cast<uint8_t>(wire::Auth::kHeader);
      t.key.epoch = 1;
      t.max_payload_bytes = 4096;
      t.payload_kinds = 1u << static_cast<unsigned>(wire::PayloadKind::kTokensU16);
      t.lease = lease_;
    }
    shared_.tenants.publish(std::make_unique<tenant::Snapshot>(std::move(tenants), 1));
    return {};
  }

  void send() {
    wire::Header header;
    header.type = wire::Type::kRequest;
    header.auth = wire::Auth::kHeader;
    header.tenant_id = kFirstTenant + static_cast<uint32_t>(sent_ % settings_.tenants);
    header.session = 1;
    header.request_id = header.sequence = ++sent_;
    header.token = token();
    header.payload_kind = wire::PayloadKind::kTokensU16;
    header.key_epoch = 1;
    header.fragment_bytes = 1024;
    header.flags = wire::kFlagNoCache;
    std::array<std::byte, 8> payload{};
    header.total_bytes = payload.size();
    std::vector<std::byte> datagram(wire::header_size(header.auth) + payload.size());
    CHECK(wire::build(header, payload, {}, datagram) == datagram.size());
    const std::vector<std::byte> frame = test::ipv4_frame(datagram, port_->info().mac);
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_);
    CHECK(mbuf != nullptr);
    std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(),
                frame.size());
    CHECK(rte_ring_enqueue(in_, mbuf) == 0);
  }
  uint64_t token() {
    const uint64_t period = kClock.now_ns() / kTokenPeriodNs;
    if (token_ == 0 || period != token_period_)
      token_ = wire::address_token(shared_.token_secret,
                                   {.address = std::as_bytes(std::span(test::kClientIp)),
                                    .port = test::kClientPort,
                                    .session = 1,
                                    .receiver = token_receiver_},
                                   token_period_ = period);
    return token_;
  }
  void drop_answers() {
    void* mbuf = nullptr;
    while (rte_ring_dequeue(out_, &mbuf) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(mbuf));
  }

  rte_mempool* const pool_;
  const Settings settings_;
  rte_ring* in_ = nullptr;
  rte_ring* out_ = nullptr;
  FakeDevice device_;
  std::unique_ptr<net::Port> port_;
  Shared shared_;
  std::shared_ptr<tenant::Lease> lease_ = std::make_shared<tenant::Lease>(kWorkers);
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<execution::GroupStage> stage_;
  uint64_t sent_ = 0;
  uint64_t token_ = 0, token_period_ = 0;
  uint16_t token_receiver_ = 0;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Status run(const Settings& settings) {
  ITIF_TRY(net::start_eal(
      {"--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--no-shconf", "--lcores=0@0"}));
  ITIF_ASSIGN(const net::Mempool pool, net::create_mempool({"speed", 8191, 2048, -1}));
  ITIF_ASSIGN(const auto off, Mode::make("off", pool.get(), false, settings));
  ITIF_ASSIGN(const auto on, Mode::make("on", pool.get(), true, settings));
  std::vector<double> off_ns, on_ns, adds_ns;
  const uint64_t start_ns = kClock.now_ns();
  for (bool first = false; static_cast<double>(kClock.now_ns() - start_ns) < settings.seconds * 1e9;
       first = !first) {
    Mode* order[] = {first ? on.get() : off.get(), first ? off.get() : on.get()};
    const double a = order[0]->turn(), b = order[1]->turn();
    off_ns.push_back(first ? b : a);
    on_ns.push_back(first ? a : b);
    adds_ns.push_back(on_ns.back() - off_ns.back());
  }
  if (adds_ns.empty()) return fail(Code::kInvalidArgument, "SECONDS is too short");
  fmt::print(
      "{} requests at once of {} tenants, medians of {} pairs of {} requests:\n"
      "off {:.0f} ns, on {:.0f} ns, the stages add {:.0f} ns per request\n",
      settings.at_once, settings.tenants, adds_ns.size(), kTurnRequests, median(off_ns),
      median(on_ns), median(adds_ns));
  return {};
}

}  // namespace
}  // namespace itif::pipeline

int main(int argc, char** argv) {
  itif::pipeline::Settings settings;
  if (argc > 1) settings.seconds = std::atof(argv[1]);
  if (argc > 2) settings.at_once = static_cast<uint32_t>(std::atoi(argv[2]));
  if (argc > 3) settings.tenants = static_cast<uint32_t>(std::atoi(argv[3]));
  if (settings.at_once < 1 || settings.at_once > 64 || settings.tenants < 1 ||
      settings.tenants > itif::tenant::kMaxTenants) {
    fmt::print(stderr, "usage: stages_speed [SECONDS [REQUESTS_AT_ONCE (1-64) [TENANTS]]]\n");
    return 2;
  }
  if (const itif::Status status = itif::pipeline::run(settings); !status) {
    fmt::print(stderr, "stages_speed: {}\n", status.error().message);
    return 1;
  }
  std::fflush(stdout);
  std::_Exit(0);  // EAL's rings and ports end with the process
}
