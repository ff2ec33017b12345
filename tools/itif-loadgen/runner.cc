#include "runner.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/prctl.h>

#include <array>
#include <chrono>
#include <thread>

#include "client/blocking_client.h"
#include "report.h"

namespace itif::loadgen {
namespace {

constexpr uint64_t kThreadStart_ns = 2'000'000;
constexpr uint64_t kQuiet_ns = 100'000'000;

// Explains a transport's lost datagrams; empty if there is nothing to report.
std::string note_of(const client::SocketStats& stats) {
  if (stats.too_big > 0)
    return fmt::format("{} datagrams were larger than the path MTU: lower --fragment-bytes",
                       stats.too_big);
  if (stats.unreachable > 0)
    return fmt::format(
        "the network reported {} times that the server could not be reached ({}): did itifd "
        "restart?",
        stats.unreachable, errno_text(stats.last_errno));
  if (stats.other_errors > 0)
    return fmt::format("{} datagrams could not be sent: {}", stats.other_errors,
                       errno_text(stats.last_errno));
  return {};
}

// Prints a line per second until every feed's thread has ended.
void print_live(std::span<LiveFeed* const> feeds, const Options& options,
                const std::atomic<size_t>& running) {
  using namespace std::chrono;
  LivePrinter printer(stderr);
  const auto start = steady_clock::now();
  auto due = start + 1s;
  auto last = start;
  LiveCounts before;
  Histogram interval;
  while (running.load() > 0) {
    if (steady_clock::now() < due) {
      std::this_thread::sleep_for(20ms);
      continue;
    }
    due += 1s;
    if (options.quiet) continue;
    for (LiveFeed* feed : feeds) feed->ask();
    LiveCounts now;
    interval.clear();
    for (LiveFeed* feed : feeds) {
      while (!feed->take(now, interval)) std::this_thread::sleep_for(1ms);
    }
    const auto at = steady_clock::now();
    if (running.load() > 0)
      printer.print(live_line(duration<double>(at - start).count(),
                              duration<double>(at - last).count(), before, now, interval));
    last = at;
    before = now;
  }
  printer.finish();
}

// Runs each client on its own thread and prints progress. REQUIRES: Client has run() and live().
template <class Client>
void run_threads(std::span<const std::unique_ptr<Client>> clients, const Options& options) {
  std::atomic<size_t> running{clients.size()};
  std::vector<LiveFeed*> feeds;
  std::vector<std::thread> threads;
  for (const auto& client : clients) {
    feeds.push_back(&client->live());
    threads.emplace_back([&running, &client] {
      prctl(PR_SET_TIMERSLACK, 1'000, 0, 0, 0);  // sleeps end at most 1 µs late
      client->run();
      running.fetch_sub(1);
    });
  }
  print_live(feeds, options, running);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

Runner::Runner(const Clock& clock, const Options& options, const std::atomic<int>& stop)
    : clock_(clock), options_(options), stop_(stop), pool_(options) {}

Result<std::unique_ptr<Runner>> Runner::create(const Clock& clock, const Options& options,
                                               const std::atomic<int>& stop, const OpenLink& open) {
  std::unique_ptr<Runner> runner(new Runner(clock, options, stop));
  for (uint32_t i = 0; i < options.threads; ++i) {
    ITIF_ASSIGN(Link link, open());
    runner->links_.push_back(std::move(link));
  }
  return runner;
}

uint64_t Runner::receive_drops() const {
  uint64_t drops = 0;
  for (const Link& link : links_) {
    if (link.receive_drops) drops += link.receive_drops();
  }
  return drops;
}

// Each run is another session, so that the server does not take its first sequence numbers for
// those of an earlier run.
SenderConfig Runner::config_of(const Options& options, uint32_t thread, uint64_t start_ns) {
  SenderConfig config{
      .options = &options, .pool = &pool_, .stop = &stop_, .thread = thread, .start_ns = start_ns};
  config.session = randombytes_random();
  randombytes_buf(&config.first_request, 7);  // 56 bits, so that counting up does not overflow
  randombytes_buf(&config.first_sequence, 7);
  return config;
}

Result<Results> Runner::run_at(double rate) {
  Options options = options_;
  options.rate = rate;
  std::vector<std::unique_ptr<Sender>> senders;
  const uint64_t start_ns = clock_.now_ns() + kThreadStart_ns;
  for (uint32_t i = 0; i < options.threads; ++i) {
    SenderConfig config = config_of(options, i, start_ns);
    config.reachability = &reachability_;
    config.sockets = links_[i].sockets;
    ITIF_ASSIGN(auto sender, Sender::create(clock_, *links_[i].transport, config));
    senders.push_back(std::move(sender));
  }
  const uint64_t drops_before = receive_drops();
  run_threads<Sender>(senders, options);
  for (const auto& sender : senders)
    if (sender->failure()) return std::unexpected(*sender->failure());
  Results results(options.targets.size());
  for (const auto& sender : senders) results.merge(sender->results());
  results.dropped_here = receive_drops() - drops_before;
  engine_.merge(results.engine);
  return results;
}

FloodResults Runner::flood() {
  std::vector<std::unique_ptr<Flooder>> flooders;
  const uint64_t start_ns = clock_.now_ns() + kThreadStart_ns;
  for (uint32_t i = 0; i < options_.threads; ++i)
    flooders.push_back(
        std::make_unique<Flooder>(clock_, *links_[i].transport, config_of(options_, i, start_ns)));
  run_threads<Flooder>(flooders, options_);
  FloodResults results;
  for (const auto& flooder : flooders) results.merge(flooder->results());
  return results;
}

void Runner::settle() {
  std::array<client::Incoming, 64> arrived;
  const uint64_t end_ns = clock_.now_ns() + options_.drain_ns;
  for (uint64_t quiet_since_ns = clock_.now_ns();;) {
    size_t count = 0;
    for (const Link& link : links_) count += link.transport->receive(arrived);
    const uint64_t now_ns = clock_.now_ns();
    if (count > 0) quiet_since_ns = now_ns;
    if (now_ns - quiet_since_ns >= kQuiet_ns || now_ns >= end_ns || was_stopped()) return;
    if (count == 0) links_[0].transport->wait(1'000'000);
  }
}

std::vector<std::string> Runner::notes() const {
  std::vector<std::string> notes;
  client::SocketStats sockets;
  for (const Link& link : links_) {
    if (link.sockets == nullptr) continue;
    std::string note = note_of(link.sockets->stats());
    if (!note.empty()) notes.push_back(std::move(note));
    sockets.received += link.sockets->stats().received;
  }
  const bool is_silent = engine_.answered + engine_.refused == 0 &&
                         (engine_.lost > 0 || (engine_.cancelled > 0 && !was_stopped()));
  if (!notes.empty() || !is_silent || options_.null_sink) return notes;
  notes.push_back(fmt::format(
      "no answer from {} port {} to {} tries: {}", options_.server, options_.port,
      engine_.tokens == 0 ? engine_.hellos : engine_.submitted + engine_.retransmissions,
      client::explain_silence({}, sockets, {}, engine_)));
  return notes;
}

}  // namespace itif::loadgen
