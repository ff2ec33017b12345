#include "ingest/worker_load.h"

#include <fmt/format.h>
#include <rte_cycles.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/random.h"
#include "net/header_bytes.h"
#include "net/transmit.h"
#include "wire/geometry.h"

namespace itif::bench {
namespace {

constexpr uint32_t kSession = 1;
constexpr net::MacAddress kClientMac = {2, 0, 0, 0, 0, 9};
constexpr uint32_t kMostRound = 2048;
// Frames of a round stay in a core's second-level cache, as after a driver's copy.
constexpr uint32_t kRoundBytes = 512 << 10;

std::vector<std::byte> make_payload(uint32_t bytes) {
  std::vector<std::byte> payload(bytes);
  Random random(5);
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random.next());
  return payload;
}

// Returns what reading the counter twice takes.
uint64_t measure_overhead() {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t before = rte_rdtsc_precise();
    least = std::min(least, rte_rdtsc_precise() - before);
  }
  return least;
}

// How often the kernel has taken the core from this thread.
long num_switches() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

void flush_from_caches(const rte_mbuf& frame) {
  const auto flush = [](const void* from, size_t bytes) {
    const auto* at = static_cast<const char*>(from);
    for (size_t i = 0; i < bytes; i += RTE_CACHE_LINE_SIZE) __builtin_ia32_clflush(at + i);
  };
  flush(rte_pktmbuf_mtod(&frame, const void*), frame.data_len + RTE_CACHE_LINE_SIZE - 1);
  flush(&frame, sizeof frame);
  rte_mb();
}

}  // namespace

uint32_t LoadOptions::frame_bytes() const noexcept {
  return static_cast<uint32_t>(net::kEthernetBytes + net::kIpv4Bytes + net::kUdpBytes +
                               wire::header_size(auth)) +
         std::min(fragment_bytes, payload_bytes);
}

uint32_t LoadOptions::round_datagrams() const noexcept {
  const uint32_t fit = kRoundBytes / (frame_bytes() + uint32_t{sizeof(rte_mbuf)});
  return std::clamp(fit / burst * burst, burst, kMostRound);
}

uint32_t LoadOptions::num_mbufs() const noexcept {
  const uint32_t cached = 1024 * (1 + num_workers);  // by the pool, for each thread
  // Requests of the window have each number of pieces from none to all but one equally often.
  const uint32_t held = num_open == 1 ? num_pieces() : num_open * num_pieces() / 2 + num_pieces();
  return held + 2 * round_datagrams() + cached;
}

WorkerLoad::WorkerLoad(std::vector<RingPort*> ports, rte_mempool* frames,
                       const LoadOptions& options, std::unique_ptr<WorkerRig> rig)
    : ports_(std::move(ports)),
      frames_(frames),
      options_(options),
      rig_(std::move(rig)),
      payload_(make_payload(options.payload_bytes)),
      clients_(options.num_clients),
      arrivals_({.num_pieces = options.num_pieces(),
                 .num_open = options.num_open,
                 .shuffled = options.shuffled,
                 .repeats = options.fault == Fault::kDuplicate}),
      overhead_cycles_(measure_overhead()) {
  for (size_t i = 0; i < clients_.size(); ++i) {
    net::Endpoint& client = clients_[i];
    client = {.peer_mac = port_of(i).port().info().mac, .our_mac = kClientMac};
    client.peer_address = {198, 18, 0, 1};
    client.our_address = {198, 18, 0, 2};
    client.peer_port = wire::kDefaultPort;
    client.our_port = static_cast<uint16_t>(40000 + i);
  }
}

Result<std::unique_ptr<WorkerLoad>> WorkerLoad::make(std::vector<RingPort*> ports,
                                                     rte_mempool* frames,
                                                     const LoadOptions& options,
                                                     const Clock& clock) {
  const RigOptions rig_options{.auth = options.auth,
                               .num_tenants = options.num_tenants,
                               .max_contexts = 4 * options.num_open + 8 * kMostRound,
                               .refuses = options.fault == Fault::kOverloaded,
                               .first_worker = options.first_worker,
                               .num_workers = options.num_workers};
  std::vector<const net::Port*> opened;
  for (const RingPort* port : ports) opened.push_back(&port->port());
  ITIF_ASSIGN(auto rig, WorkerRig::make(opened, ports.front()->pool(), rig_options, clock));
  return std::unique_ptr<WorkerLoad>(
      new WorkerLoad(std::move(ports), frames, options, std::move(rig)));
}

double WorkerLoad::cycles_per_second() {
  return static_cast<double>(rte_get_tsc_hz());
}

WorkerLoad::~WorkerLoad() {
  for (const Frame& frame : std::span(round_).subspan(at_)) rte_pktmbuf_free(frame.mbuf);
  settle();
}

rte_mbuf* WorkerLoad::build(const Arrivals::Piece& piece) {
  const uint64_t tenant = piece.request % rig_->keys().size();
  const size_t number = client_of(piece.request);
  const net::Endpoint& client = clients_[number];
  wire::Header header;
  header.type = wire::Type::kRequest;
  header.auth = options_.auth;
  header.tenant_id = WorkerRig::tenant_id(tenant);
  header.session = kSession;
  header.request_id = piece.request;
  header.total_bytes = options_.payload_bytes;
  header.offset = piece.index * options_.fragment_bytes;
  header.payload_kind = wire::PayloadKind::kRaw;
  header.key_epoch = WorkerRig::kKeyEpoch;
  header.fragment_bytes = static_cast<uint16_t>(options_.fragment_bytes);
  // A replayed datagram has a number that was accepted before.
  header.sequence = options_.fault == Fault::kReplayed ? 1 : ++last_sequence_;
  header.token = tokens_[number];
  const uint32_t bytes =
      wire::piece_bytes(header.total_bytes, header.fragment_bytes, header.offset);
  // The client's port computes UDP's checksum: a frame without one is not verified.
  rte_mbuf* mbuf = net::build_datagram(header, std::span(payload_).subspan(header.offset, bytes),
                                       rig_->keys()[tenant], client, frames_,
                                       {.udp_checksum = !options_.checksums_in_software});
  CHECK(mbuf != nullptr);
  mbuf->ol_flags = options_.checksums_in_software
                       ? 0
                       : RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  std::byte* datagram = rte_pktmbuf_mtod_offset(mbuf, std::byte*, net::udp_header_bytes(client));
  if (options_.fault == Fault::kBadTag) datagram[wire::kHeaderBytes] ^= std::byte{1};
  if (options_.fault == Fault::kBadMagic) datagram[0] ^= std::byte{1};
  return mbuf;
}

void WorkerLoad::make_tokens() {
  tokens_.clear();
  for (size_t i = 0; i < clients_.size(); ++i)
    tokens_.push_back(rig_->token(clients_[i], kSession, i % ports_.size()));
}

void WorkerLoad::build_round() {
  DCHECK(at_ == round_.size());
  at_ = 0;
  make_tokens();
  round_.resize(options_.round_datagrams());
  for (Frame& frame : round_) {
    const Arrivals::Piece piece = arrivals_.next();
    frame = {build(piece), &port_of(client_of(piece.request))};
    bytes_sent_ += frame.mbuf->pkt_len;
  }
  sent_ += round_.size();
  if (options_.cold)
    for (const Frame& frame : round_) flush_from_caches(*frame.mbuf);
}

size_t WorkerLoad::put_burst() {
  const size_t count = std::min<size_t>(options_.burst, round_.size() - at_);
  for (RingPort* port : ports_) {
    burst_.clear();
    for (const Frame& frame : std::span(round_).subspan(at_, count))
      if (frame.port == port) burst_.push_back(frame.mbuf);
    port->put(burst_);
  }
  at_ += count;
  return count;
}

size_t WorkerLoad::poll() noexcept {
  size_t done = 0;
  for (const auto& worker : workers()) done += worker->poll();
  return done;
}

bool WorkerLoad::is_empty() const noexcept {
  return std::ranges::all_of(ports_, [](const RingPort* port) { return port->is_empty(); });
}

template <class Step>
void WorkerLoad::time(Pass& pass, uint64_t datagrams, Step&& step) {
  const long switches = num_switches();
  const uint64_t before = rte_rdtsc_precise();
  step();
  const uint64_t cycles = rte_rdtsc_precise() - before - overhead_cycles_;
  if (num_switches() != switches) return;
  pass.cycles += cycles;
  pass.datagrams += datagrams;
}

// Adds the time of the polls that answer everything lent so far.
void WorkerLoad::time_answers(Pass& pass) {
  for (size_t done = 1; done > 0;) {  // 0: the rest is incomplete
    rig_->group().take();
    if (rig_->group().give_back() == 0 && pipeline::total_figures(workers()).contexts == 0) return;
    time(pass, 0, [&] { done = poll(); });
    free_sent();
  }
}

void WorkerLoad::free_sent() {
  std::array<rte_mbuf*, 64> frames;
  for (RingPort* port : ports_)
    while (const size_t count = port->take(frames)) free_frames(std::span(frames).first(count));
}

void WorkerLoad::serve() {
  rig_->group().take();
  rig_->group().give_back();
  free_sent();
}

void WorkerLoad::settle() {
  for (int rest = 0; rest < 2;) {
    serve();
    rest = poll() == 0 ? rest + 1 : 0;
  }
  free_sent();
}

Pass WorkerLoad::run(uint32_t datagrams) {
  Pass pass;
  const uint64_t bytes_before = bytes_sent_, sent_before = sent_;
  while (pass.datagrams < datagrams) {
    build_round();
    while (const size_t burst = put_burst()) {
      time(pass, burst, [&] {
        do {
          poll();
        } while (!is_empty());
      });
      if (options_.responds)
        serve();
      else
        free_sent();  // refusals, sent in the same poll
    }
    if (options_.responds) time_answers(pass);
    settle();
  }
  pass.bytes = (bytes_sent_ - bytes_before) * pass.datagrams / (sent_ - sent_before);
  return pass;
}

Pass WorkerLoad::run_bare(uint32_t datagrams) {
  Pass pass;
  std::array<rte_mbuf*, 64> received;
  const uint32_t round = options_.round_datagrams();
  std::vector<rte_mbuf*> frames(round);
  constexpr uint64_t kFirst = UINT64_MAX / 2;  // no request of the worker's
  make_tokens();
  while (pass.datagrams < datagrams) {
    for (uint32_t i = 0; i < round; ++i)
      frames[i] = build({kFirst + i / options_.num_pieces(), i % options_.num_pieces()});
    if (options_.cold)
      for (const rte_mbuf* frame : frames) flush_from_caches(*frame);
    for (uint32_t at = 0; at < round; at += options_.burst) {
      const uint32_t burst = std::min(options_.burst, round - at);
      ports_.front()->put(std::span(frames).subspan(at, burst));
      time(pass, burst, [&] {
        while (const uint16_t count = ports_.front()->port().rx_burst(0, received))
          rte_pktmbuf_free_bulk(received.data(), count);
      });
    }
  }
  return pass;
}

}  // namespace itif::bench
