// itif-loadgen: command line → transports and senders → threads → table.
#include <fmt/format.h>
#include <sodium.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "client/socket_transport.h"
#include "eal_transport.h"
#include "flood.h"
#include "null_transport.h"
#include "options.h"
#include "report.h"
#include "sender.h"

namespace itif::loadgen {
namespace {

std::atomic<int> stop_requested{0};
static_assert(std::atomic<int>::is_always_lock_free);

// The first Ctrl-C ends sending, the second also ends waiting for answers.
extern "C" void on_signal(int) {
  const int now = stop_requested.load(std::memory_order_relaxed);
  stop_requested.store(now < 2 ? now + 1 : 2, std::memory_order_relaxed);
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Result<std::unique_ptr<client::Transport>> make_transport(const Clock& clock,
                                                          const Options& options) {
  if (options.null_sink) return std::make_unique<NullTransport>();
  if (!options.eal_args.empty()) {
    return open_eal_transport(clock, {.eal_args = options.eal_args,
                                      .device = options.eal_device,
                                      .local_ip = options.local_address,
                                      .server_ip = options.server,
                                      .server_mac = options.server_mac,
                                      .server_port = options.port,
                                      .num_flows = options.flows});
  }
  client::SocketOptions socket;
  socket.server = options.server;
  socket.port = options.port;
  socket.local = options.local_address;
  socket.num_flows = options.flows;
  socket.busy_poll_us = options.busy_poll_us;
  ITIF_ASSIGN(auto transport, client::SocketTransport::connect(socket));
  return transport;
}

// Explains a transport's lost datagrams; empty if there is nothing to report.
std::string transport_note(const client::Transport& transport) {
  const auto* sockets = dynamic_cast<const client::SocketTransport*>(&transport);
  if (sockets == nullptr) return {};
  const client::SocketStats& stats = sockets->stats();
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

Status write_json(const std::string& path, const nlohmann::ordered_json& json) {
  if (path.empty()) return {};
  const std::string text = json.dump(2) + "\n";
  if (path == "-") {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    return fail(Code::kPermission, fmt::format("--json {}: the file cannot be written", path));
  return {};
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

Result<int> run(const Options& options) {
  if (sodium_init() < 0) return fail(Code::kInternal, "libsodium cannot be initialised");
  const SystemClock clock;
  const PayloadPool pool(options);
  std::vector<std::unique_ptr<client::Transport>> transports;
  for (uint32_t i = 0; i < options.threads; ++i) {
    ITIF_ASSIGN(auto transport, make_transport(clock, options));
    transports.push_back(std::move(transport));
  }
  handle_signals();

  const auto config = [&](uint32_t thread, uint64_t start_ns) {
    SenderConfig c{.options = &options, .pool = &pool, .stop = &stop_requested, .thread = thread};
    c.session = randombytes_random();
    randombytes_buf(&c.first_request, 7);  // 56 bits, so that counting up does not overflow
    randombytes_buf(&c.first_sequence, 7);
    c.start_ns = start_ns;
    return c;
  };
  constexpr uint64_t kThreadStart_ns = 2'000'000;
  std::FILE* const text_out = options.json_file == "-" ? stderr : stdout;

  if (options.flood) {
    std::vector<std::unique_ptr<Flooder>> flooders;
    const uint64_t start_ns = clock.now_ns() + kThreadStart_ns;
    for (uint32_t i = 0; i < options.threads; ++i)
      flooders.push_back(std::make_unique<Flooder>(clock, *transports[i], config(i, start_ns)));
    run_threads<Flooder>(flooders, options);
    FloodResults results;
    for (const auto& flooder : flooders) results.merge(flooder->results());
    std::fputs(flood_table(results).c_str(), text_out);
    ITIF_TRY(write_json(options.json_file, flood_json(options, results)));
    return 0;
  }

  std::vector<std::unique_ptr<Sender>> senders;
  Reachability reachability;
  const uint64_t start_ns = clock.now_ns() + kThreadStart_ns;
  for (uint32_t i = 0; i < options.threads; ++i) {
    SenderConfig of_thread = config(i, start_ns);
    of_thread.reachability = &reachability;
    of_thread.sockets = dynamic_cast<const client::SocketTransport*>(transports[i].get());
    ITIF_ASSIGN(auto sender, Sender::create(clock, *transports[i], of_thread));
    senders.push_back(std::move(sender));
  }
  run_threads<Sender>(senders, options);
  for (const auto& sender : senders)
    if (sender->failure()) return std::unexpected(*sender->failure());
  Results results(options.targets.size());
  for (const auto& sender : senders) results.merge(sender->results());
  std::fputs(table(options, results).c_str(), text_out);
  for (const auto& transport : transports) {
    const std::string note = transport_note(*transport);
    if (!note.empty()) std::fprintf(stderr, "itif-loadgen: %s\n", note.c_str());
  }
  ITIF_TRY(write_json(options.json_file, to_json(options, results)));
  return all_answered(results) ? 0 : 1;
}

}  // namespace
}  // namespace itif::loadgen

int main(int argc, char** argv) {
  using namespace itif::loadgen;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const Command command = parse_command(arguments);
  if (!command.run) {
    std::fputs(command.text.c_str(), command.exit_code == 0 ? stdout : stderr);
    return command.exit_code;
  }
  if (command.options.quiet) itif::log::set_level(itif::log::Level::kWarning);
  const auto ended = run(command.options);
  if (ended) return *ended;
  std::fprintf(stderr, "itif-loadgen: %s\n", ended.error().message.c_str());
  return 1;
}
