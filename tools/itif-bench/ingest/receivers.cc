#include "ingest/receivers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <sstream>
#include <vector>

#include "base/clock.h"
#include "ingest/worker_rig.h"
#include "net/devices.h"
#include "pipeline/figures.h"

namespace itif::bench {
namespace {

const SystemClock kClock;
constexpr uint64_t kLongestStartNs = 20'000'000'000;
// itif-loadgen waits for address tokens for at most a second, which these receivers do not give.
constexpr uint64_t kWarmUpNs = 1'500'000'000;

uint64_t now_ns() {
  return kClock.now_ns();
}

std::unexpected<Error> nothing_arrived(const Child& sender) {
  return fail(Code::kUnavailable,
              fmt::format("no datagram of itif-loadgen arrived: {}", sender.last_line()));
}

double per_second(uint64_t count, uint64_t ns) {
  return static_cast<double>(count) * 1e9 / static_cast<double>(ns);
}

// Calls step() until `ns` have passed; reads the clock rarely.
template <class Step>
void run_for(uint64_t ns, Step&& step) {
  for (const uint64_t start_ns = now_ns(); now_ns() - start_ns < ns;)
    for (int i = 0; i < 64; ++i) step();
}

// Calls step() until `count()` is above 0. Returns false if that takes too long.
template <class Step, class Count>
bool run_until_first(Child& sender, Step&& step, Count&& count) {
  const uint64_t start_ns = now_ns();
  while (count() == 0) {
    if (sender.has_ended() || now_ns() - start_ns > kLongestStartNs) return false;
    step();
  }
  return true;
}

}  // namespace

Result<Received> receive_by_worker(FloodOptions flood, rte_mempool* pool, double seconds) {
  const std::string device = memif_server(flood.folder + "/memif.sock");
  ITIF_TRY(net::attach_devices(std::span(&device, 1)));
  ITIF_ASSIGN(net::Port port, net::Port::open({.device = "net_memif0", .pool = pool}));
  Result<Received> received = [&]() -> Result<Received> {
    ITIF_ASSIGN(const auto rig, WorkerRig::make(port, pool, {.auth = flood.auth}, kClock));
    flood.key = rig->keys()[0];
    ITIF_ASSIGN(Child sender, flood_memif(flood, true));
    pipeline::Worker& worker = rig->worker();
    const auto step = [&] {
      worker.poll();
      rig->group().take();
      rig->group().give_back();
    };
    const telemetry::WorkerCounters& counters = worker.counters();
    if (!run_until_first(sender, step, [&] { return counters.requests.read(); }))
      return nothing_arrived(sender);
    run_for(kWarmUpNs, step);
    const uint64_t start_ns = now_ns(), datagrams = counters.received.read(),
                   answers = counters.sent.read();
    run_for(static_cast<uint64_t>(seconds * 1e9), step);
    const uint64_t ns = now_ns() - start_ns;
    const Received result{.per_second = per_second(counters.received.read() - datagrams, ns),
                          .answers_per_second = per_second(counters.sent.read() - answers, ns)};
    sender.end();
    while (worker.poll() > 0) step();
    const pipeline::WorkerFigures figures = pipeline::worker_figures(worker);
    const uint64_t unused = figures.total_dropped() + figures.total_repeated();
    if (unused > 0 || figures.requests == 0)
      return fail(Code::kInternal, fmt::format("the worker accepted {} requests and dropped {} of "
                                               "{} datagrams",
                                               figures.requests, unused, figures.received));
    return result;
  }();
  if (Status detached = port.detach(); !detached && received)
    return std::unexpected(detached.error());
  return received;
}

Result<Received> receive_by_testpmd(const FloodOptions& flood, const std::string& testpmd,
                                    int main_cpu, int cpu, double seconds) {
  ITIF_ASSIGN(Child receiver,
              Child::start({testpmd, "--no-shconf", "--no-huge", "-m", "256", "--no-pci",
                            "--no-telemetry", fmt::format("--lcores=0@{},1@{}", main_cpu, cpu),
                            "--vdev=" + memif_server(flood.folder + "/memif.sock"), "--",
                            "--forward-mode=rxonly", "--stats-period=1", "--disable-link-check",
                            "--total-num-mbufs=16384", "--burst=64"},
                           fmt::format("{},{}", main_cpu, cpu), flood.folder + "/testpmd.txt"));
  const auto wait = [](uint64_t ns) {
    const timespec time{.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
                        .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
    ::nanosleep(&time, nullptr);
  };
  constexpr uint64_t kTick = 50'000'000;
  constexpr std::string_view kRate = "Rx-pps:";
  // Waits until it forwards: a sender that comes too early ends a memif server.
  const uint64_t start_ns = now_ns();
  while (receiver.output().find(kRate) == std::string::npos) {
    if (receiver.has_ended() || now_ns() - start_ns > kLongestStartNs)
      return fail(Code::kUnavailable, "dpdk-testpmd does not start: " + receiver.last_line());
    wait(kTick);
  }
  ITIF_ASSIGN(Child sender, flood_memif(flood, false));
  const auto rates = [&] {
    std::vector<double> all;
    const std::string text = receiver.output();
    for (size_t at = 0; (at = text.find(kRate, at)) != std::string::npos; at += kRate.size())
      if (const double rate = std::strtod(text.c_str() + at + kRate.size(), nullptr); rate > 0)
        all.push_back(rate);
    return all;
  };
  // The first and the last interval may hold less than a second of the flood.
  const size_t enough = static_cast<size_t>(std::max(1.0, seconds)) + 2;
  const uint64_t flood_ns = now_ns();
  while (rates().size() < enough) {
    if (receiver.has_ended())
      return fail(Code::kUnavailable, "dpdk-testpmd has ended: " + receiver.last_line());
    if (sender.has_ended() ||
        now_ns() - flood_ns > kLongestStartNs + static_cast<uint64_t>(seconds * 2e9))
      return nothing_arrived(sender);
    wait(kTick);
  }
  std::vector<double> all = rates();
  sender.end();
  receiver.end();
  all = {all.begin() + 1, all.end() - 1};
  std::ranges::sort(all);
  return Received{.per_second = all[all.size() / 2]};
}

Result<Received> receive_by_recvmmsg(const FloodOptions& flood, double seconds) {
  struct Close {
    int fd;
    ~Close() { ::close(fd); }
  };
  const Close socket{::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const int buffer_bytes = 8 << 20;
  if (socket.fd < 0 ||
      ::setsockopt(socket.fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes) != 0 ||
      ::bind(socket.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::getsockname(socket.fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return fail(Code::kInternal, fmt::format("a UDP socket: {}", errno_text(errno)));
  ITIF_ASSIGN(Child sender, flood_sockets(flood, ntohs(address.sin_port)));

  constexpr size_t kBatch = 64, kMostBytes = 9216;
  std::vector<std::byte> bytes(kBatch * kMostBytes);
  std::array<iovec, kBatch> parts;
  std::array<mmsghdr, kBatch> messages{};
  for (size_t i = 0; i < kBatch; ++i) {
    parts[i] = {bytes.data() + i * kMostBytes, kMostBytes};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  uint64_t count = 0;
  const auto step = [&] {
    const int got = ::recvmmsg(socket.fd, messages.data(), kBatch, 0, nullptr);
    if (got > 0) count += static_cast<uint64_t>(got);
  };
  if (!run_until_first(sender, step, [&] { return count; })) return nothing_arrived(sender);
  run_for(kWarmUpNs, step);
  const uint64_t before = count, start_ns = now_ns();
  run_for(static_cast<uint64_t>(seconds * 1e9), step);
  return Received{.per_second = per_second(count - before, now_ns() - start_ns)};
}

}  // namespace itif::bench
