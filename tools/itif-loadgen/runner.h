// Runs senders or flooders on their threads, over transports that stay open between runs, and
// prints progress. Used by the main thread only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "client/socket_transport.h"
#include "flood.h"
#include "options.h"
#include "request_mix.h"
#include "results.h"
#include "sender.h"

namespace itif::loadgen {

// A thread's transport.
struct Link {
  std::unique_ptr<client::Transport> transport;
  const client::SocketTransport* sockets = nullptr;  // of the transport; null: another kind
  // Returns the datagrams that arrived and found no buffer; empty: the transport drops none.
  std::function<uint64_t()> receive_drops = {};
};
using OpenLink = std::function<Result<Link>()>;

class Runner {
 public:
  // Opens a link per thread with `open`. stop: a Stop. Errors: those of `open`. REQUIRES: clock,
  // options and stop outlive the runner.
  static Result<std::unique_ptr<Runner>> create(const Clock& clock, const Options& options,
                                                const std::atomic<int>& stop, const OpenLink& open);

  // Sends at options.rate and returns when each request has ended. Errors: those of Sender.
  Result<Results> run() { return run_at(options_.rate); }
  Result<Results> run_at(double rate);
  FloodResults flood();
  // Receives and discards until nothing has arrived for 100 ms, at most for options.drain_ns, so
  // that late answers of one run do not load the next.
  void settle();
  bool was_stopped() const noexcept { return stop_.load(std::memory_order_relaxed) != 0; }
  // Explains datagrams that the transports lost, or why no run had an answer; a line each.
  std::vector<std::string> notes() const;

 private:
  Runner(const Clock& clock, const Options& options, const std::atomic<int>& stop);
  SenderConfig config_of(const Options& options, uint32_t thread, uint64_t start_ns);
  uint64_t receive_drops() const;

  const Clock& clock_;
  const Options& options_;
  const std::atomic<int>& stop_;
  const PayloadPool pool_;
  std::vector<Link> links_;  // by thread
  Reachability reachability_;
  client::EngineStats engine_;  // of all runs
};

}  // namespace itif::loadgen
